"""Settings of Hadoop's connectors to object stores, from the environment.

The variables are those of each store's own tools. Python's client of the store reads the same ones, so an operator
names an address or a key once. No setting holds a secret. S3A finds its keys in the variables by itself. For Azure the
setting names the variable, which Hadoop reads in each process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


_S3A: Final = {
    # Hadoop knows S3A by s3a:// only; s3:// is what people and all other readers of the tables write
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    # Spark uploads state files so. S3A's own way for it is asynchronous, and failed beside Spark's Netty
    "fs.s3a.optimized.copy.from.local.enabled": "false",
}
_S3_ADDRESS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_S3_REGION: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AZURE_KEY: Final = "AZURE_STORAGE_ACCOUNT_KEY"
_AZURE_CLIENT: Final = ("AZURE_STORAGE_TENANT_ID", "AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET")
_AZURE_TOKENS: Final = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"


def hadoop_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings for object stores, as far as the ``environment`` says more than Hadoop's defaults."""
    return {**_s3(environment), **_gcs(environment), **_azure(environment)}


def _s3(environment: Mapping[str, str]) -> dict[str, str]:
    found = dict(_S3A)
    address, region = _first(environment, _S3_ADDRESS), _first(environment, _S3_REGION)
    if address:
        # a server that is not Amazon's seldom has a host name for each bucket
        found |= {"fs.s3a.endpoint": address, "fs.s3a.path.style.access": "true"}
    if region:
        # without it the client asks the metadata service of EC2, for half a minute where there is none
        found["fs.s3a.endpoint.region"] = region
    return found


def _gcs(environment: Mapping[str, str]) -> dict[str, str]:
    project = environment.get("GOOGLE_CLOUD_PROJECT")
    return {
        # GOOGLE_APPLICATION_CREDENTIALS, else the user's login, else those of the machine, as Python's client does it
        "fs.gs.auth.type": "APPLICATION_DEFAULT",
        **({"fs.gs.project.id": project} if project else {}),
    }


def _azure(environment: Mapping[str, str]) -> dict[str, str]:
    if environment.get(_AZURE_KEY):
        return {"fs.azure.account.key": f"${{env.{_AZURE_KEY}}}"}
    if not all(environment.get(name) for name in _AZURE_CLIENT):
        return {}
    tenant, client, secret = _AZURE_CLIENT
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": _AZURE_TOKENS,
        "fs.azure.account.oauth2.client.endpoint": f"https://login.microsoftonline.com/${{env.{tenant}}}/oauth2/token",
        "fs.azure.account.oauth2.client.id": f"${{env.{client}}}",
        "fs.azure.account.oauth2.client.secret": f"${{env.{secret}}}",
    }


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)
