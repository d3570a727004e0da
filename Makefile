# The commands are `make demo`, `make quick` and `make test`. Everything they need is made here, inside this folder.
.DELETE_ON_ERROR:
.PHONY: help demo quick test test-long lint bench jars wheel sbom release stack-images stack stack-test test-matrix docs lock clean

PYTHON  ?= python3.11
BIN     := .venv/bin
SOURCES := PYTHONPATH=jobs:plugins:demo
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' jobs/sessionizer/__init__.py)
# the address of the repository on the web, for the links on the page of an index
export REPOSITORY_URL ?= $(REPOSITORY)
# processes of the demo and of the tests run with the jars of this folder
export SESSIONIZER_JARS := $(CURDIR)/.jars/spark
# a run of the tests starts hundreds of Pythons; where the environment forbids bytecode, each compiles the product anew
unexport PYTHONDONTWRITEBYTECODE
UV      := .tools/bin/uv
# processes that run tests side by side: one more than the two processors, as a test of Airflow mostly waits
WORKERS ?= 3

help:
	@echo "make demo       start Airflow, a stream and events; prints where to look; Ctrl-C ends it all"
	@echo "make quick      while you work: lint, layers, types, tests that start no process; below 3 minutes"
	@echo "make test       everything CI runs: lint, types, layers, tests"
	@echo "make test-long  soaks and the full fault matrix"
	@echo "make bench      the benchmarks, one table and one plot"
	@echo "make wheel      the package that pip installs, in dist/"
	@echo "make sbom       what the lock and the jars bring, as CycloneDX, in dist/"
	@echo "make release    at a tag: wheel, sdist, bill and notes in dist/, and the golden release"
	@echo "make stack      the platform in containers: docker/compose.yaml"
	@echo "make stack-test  a stream in that stack, twice, with a worker killed, a restore, an upgrade, down and up"
	@echo "make test-matrix  the wheel in other Pythons, Airflows and Sparks; prints a table"
	@echo "make docs       the documentation as a site, in dist/site"
	@echo "make lock       resolve requirements.lock and docker/requirements.lock anew"

# after Java, because both may have to be installed by the one package manager
.tools/chromium: docker/ensure-chromium | .tools/java
	@mkdir -p .tools
	sh docker/ensure-chromium
	@touch $@

.tools/java: docker/ensure-java
	@mkdir -p .tools
	sh docker/ensure-java
	@touch $@

.tools/prometheus/promtool: docker/ensure-prometheus
	sh docker/ensure-prometheus
	@touch $@

$(UV):
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check uv==0.13.9

.venv/.synced: requirements.lock | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .venv
	$(UV) pip sync --quiet --require-hashes --compile-bytecode --python $(BIN)/python requirements.lock
	@touch $@

# the package as users install it, with its entry points, but from this folder; `sessionizer` finds the jars without make
.venv/.installed: pyproject.toml jobs/sessionizer/__init__.py .venv/.synced
	$(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@mkdir -p .venv/share/streaming-state && ln -sfn ../../../.jars/spark .venv/share/streaming-state/jars
	@touch $@

# `ivy CONFIGURATION`: the jars of ivy.xml, servers for the tests, complete before the folder gets its name
define ivy
	rm -rf .jars/$(2).part
	LC_ALL=C.UTF-8 java -Duser.language=en -Duser.country=US \
	  -cp "$$(ls $(BIN)/../lib/python3.11/site-packages/pyspark/jars/ivy-*.jar)" org.apache.ivy.Main -ivy ivy.xml \
	  -confs $(1) -retrieve ".jars/$(2).part/[artifact]-[revision].[ext]" -warn >.jars/$(2).log 2>&1 \
	  || { cat .jars/$(2).log >&2; exit 1; }
	rm -rf .jars/$(2) && mv .jars/$(2).part .jars/$(2)
endef

.jars/.fetched: ivy.xml jobs/sessionizer/launch/jars.xml .venv/.installed .tools/java
	@mkdir -p .jars
	$(BIN)/sessionizer jars fetch .jars/spark --with s3 --with azure
	$(call ivy,broker,broker)
	$(call ivy,hadoop,hadoop)
	$(call ivy,postgres,postgres)
	@touch $@

# without it drivers start slower, but start
.jars/.archived: .jars/.fetched jobs/sessionizer/spark/driver/class_archive.py
	$(SOURCES) $(BIN)/python -m sessionizer.spark.driver.class_archive >.jars/archive.log 2>&1 \
	  || tail -n 20 .jars/archive.log >&2
	@touch $@

# a server of Azure's blobs for the tests of control stores, from npm
.tools/azurite:
	rm -rf $@.part
	npm install --silent --no-audit --no-fund --prefix $@.part azurite@3.37.0
	mv $@.part $@

jars: .jars/.archived

demo: .jars/.archived
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m sessionizer_demo

lint: .venv/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(SOURCES) $(BIN)/lint-imports
	$(BIN)/mypy

# no jars: nothing here starts Spark; what ruff, mypy and import-linter found before is kept in their caches
quick: lint
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/unit -q -m "not long" -n 2

# jars come over the network and mypy uses one processor: what the tests need is made while their code is checked
test: .venv/.installed
	@$(MAKE) --no-print-directory --jobs 3 .jars/.archived .tools/chromium lint
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m "not long" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20

test-long: .jars/.archived .tools/chromium .tools/azurite .tools/prometheus/promtool
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m long --timeout 7200

# Flink has packages that do not go together with ours, so it has an environment of its own
.tools/flink/.ready: benchmarks/flink-requirements.lock ivy.xml .venv/.synced .tools/java
	@mkdir -p .jars
	rm -rf .tools/flink
	$(UV) venv --quiet --python $(PYTHON) .tools/flink
	$(UV) pip sync --quiet --require-hashes --python .tools/flink/bin/python $<
	$(call ivy,flink,flink)
	mv .jars/flink .tools/flink/jars
	@touch $@

bench: .jars/.archived .tools/flink/.ready
	$(SOURCES):benchmarks PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/run.py $(ARGS)

# what `pip install` installs
wheel: .venv/.synced
	$(BIN)/python -m hatchling build -t wheel -d dist

# the exact packages and jars of a driver, without those of development
sbom: wheel
	$(UV) venv --quiet --clear --python $(PYTHON) dist/.sbom
	$(UV) pip install --quiet --python dist/.sbom/bin/python --constraint requirements.lock "$$(ls dist/*.whl)[airflow,driver,kafka,s3,gcs,azure,hdfs,openlineage]"
	$(UV) tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment --output-file dist/sbom.json dist/.sbom/bin/python
	$(BIN)/python release/bill.py jobs/sessionizer/launch/jars.xml dist/sbom.json THIRD_PARTY.md
	rm -rf dist/.sbom

# make release REPOSITORY=https://github.com/OWNER/NAME
release: .jars/.archived
	$(SOURCES):tests $(BIN)/python -c "from support.releases.cut_release import REPOSITORY, require_tagged; require_tagged(REPOSITORY, '$(VERSION)')"
	rm -rf dist && mkdir dist
	$(BIN)/python release/notes.py CHANGELOG.md $(VERSION) >dist/notes.md
	$(BIN)/python -m hatchling build -d dist
	$(MAKE) --no-print-directory sbom
	git diff --exit-code THIRD_PARTY.md
	$(SOURCES):tests $(BIN)/python -m support.releases.cut_release

test-matrix: wheel
	$(BIN)/python release/matrix.py dist

# the images of docker/.env that bear our name
COMPOSE ?= $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
stack-images:
	$(PYTHON) docker/prepare_stack.py
	@set -a; . docker/.env; set +a; \
	METRICS=; case $$COMPOSE_FILE in *metrics*) METRICS=$$PROMETHEUS_IMAGE ;; esac; \
	for image in $$AIRFLOW_IMAGE $$DRIVER_IMAGE $$POSTGRES_IMAGE $$KAFKA_IMAGE $$S3_IMAGE $$METRICS; do \
	  case $$image in streaming-state-*) \
	    docker build -f docker/Dockerfile --build-arg BASE=$$BASE_IMAGE \
	      --build-arg GO_BASE=$$GO_IMAGE --target $${image#streaming-state-} -t $$image . || exit 1 ;; esac; done

# PostgreSQL, Airflow, Kafka, S3 and a Spark cluster, from docker/compose.yaml
stack: stack-images
	cd docker && $(COMPOSE) up --detach

# a stream in two stacks of its own, each from empty volumes and on free ports. It needs a Docker engine
stack-test: .venv/.installed .tools/chromium
	COMPOSE="$(COMPOSE)" PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m long --timeout 7200 tests/e2e/stack $(ARGS)

# the pages with the files that they link to, at their places; --strict fails at a link or anchor that is not there
docs: | $(UV)
	rm -rf dist/pages && mkdir -p dist/pages
	git ls-files --cached --others --exclude-standard '*.md' docs jobs dags examples | tar -cf - -T - | tar -xf - -C dist/pages
	$(UV) tool run --quiet --from mkdocs-material==9.7.0 mkdocs build --strict --config-file release/mkdocs.yml

lock: | $(UV)
	$(UV) pip compile pyproject.toml --extra airflow --extra driver --extra kafka --extra s3 --extra gcs --extra azure --extra hdfs --extra openlineage \
	  --group dev --generate-hashes \
	  --python-version 3.11 --no-header --quiet --output-file requirements.lock
	$(UV) pip compile pyproject.toml docker/requirements.in --extra airflow --extra driver --extra kafka --extra s3 --extra hdfs --extra lookup \
	  --constraint requirements.lock --generate-hashes \
	  --python-version 3.11 --no-header --quiet --output-file docker/requirements.lock
	$(UV) pip compile benchmarks/flink-requirements.in --generate-hashes \
	  --python-version 3.11 --no-header --quiet --output-file benchmarks/flink-requirements.lock

clean:
	rm -rf .venv .tools .jars .demo .bench
