"""Settings of Spark for object stores, compared one by one. None has a secret."""

import pytest

from sessionizer.home.roots import ObjectStore, hadoop_settings, object_store
from sessionizer.launch.jars import jar_names

ALWAYS = {
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    "fs.s3a.optimized.copy.from.local.enabled": "false",
    "fs.gs.auth.type": "APPLICATION_DEFAULT",
}
SECRET = "of-tests"  # noqa: S105  it is none
CLIENT = {
    "AZURE_STORAGE_TENANT_ID": "tenant",
    "AZURE_STORAGE_CLIENT_ID": "client",
    "AZURE_STORAGE_CLIENT_SECRET": SECRET,
}


@pytest.mark.parametrize(
    ("environment", "further"),
    [
        ({}, {}),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:5000", "AWS_DEFAULT_REGION": "eu-west-1"},
            {
                "fs.s3a.endpoint": "http://127.0.0.1:5000",
                "fs.s3a.path.style.access": "true",
                "fs.s3a.endpoint.region": "eu-west-1",
            },
        ),
        (
            {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3", "AWS_ACCESS_KEY_ID": SECRET},
            {"fs.s3a.endpoint": "http://s3", "fs.s3a.path.style.access": "true"},
        ),
        ({"GOOGLE_CLOUD_PROJECT": "shop"}, {"fs.gs.project.id": "shop"}),
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": SECRET},
            {"fs.azure.account.key": "${env.AZURE_STORAGE_ACCOUNT_KEY}"},
        ),
        (
            CLIENT,
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/${env.AZURE_STORAGE_TENANT_ID}/oauth2/token"
                ),
                "fs.azure.account.oauth2.client.id": "${env.AZURE_STORAGE_CLIENT_ID}",
                "fs.azure.account.oauth2.client.secret": "${env.AZURE_STORAGE_CLIENT_SECRET}",
            },
        ),
        ({"AZURE_STORAGE_CLIENT_ID": "client"}, {}),
    ],
    ids=["nothing", "an S3 server", "an S3 server beside others", "a project", "a key", "an application", "half of it"],
)
def test_exact_settings(environment: dict[str, str], further: dict[str, str]) -> None:
    found = hadoop_settings(environment)
    assert found == ALWAYS | further
    assert SECRET not in found.values()


@pytest.mark.parametrize(
    ("uri", "store"),
    [
        ("s3://bucket/lake", ObjectStore.S3),
        ("s3a://bucket/lake", ObjectStore.S3),
        ("gs://bucket/lake", ObjectStore.GCS),
        ("abfss://container@account.dfs.core.windows.net/lake", ObjectStore.AZURE),
        ("hdfs://namenode:8020/lake", None),
        ("/lake", None),
        (None, None),
    ],
)
def test_the_store_of_a_uri(uri: str | None, store: ObjectStore | None) -> None:
    assert object_store(uri) is store


@pytest.mark.parametrize("store", ObjectStore)
def test_each_store_has_jars_that_other_drivers_are_spared(store: ObjectStore) -> None:
    own = set(jar_names([store])) - set(jar_names())
    assert any(name.startswith("hadoop-") for name in own)
    assert set(jar_names()) < set(jar_names([store]))
