# Every target sets up what it needs by itself, once, inside .toolchain/ (git-ignored).

DENO := .toolchain/bin/deno
export DENO_DIR := $(CURDIR)/.toolchain/cache
export DENO_NO_UPDATE_CHECK := 1
# The certificates of the system count too, as they do for npm.
export DENO_TLS_CA_STORE ?= mozilla,system
ALLOW := --allow-read --allow-write --allow-net --allow-env --allow-run --allow-sys
SOURCES := $(shell find main.ts src -name '*.ts' 2>/dev/null) deno.json deno.lock

.DEFAULT_GOAL := help
.PHONY: help run test test-full check chaos crash fuzz bench bench-jobs bench-sandbox bench-machines bench-index bench-start release build clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

run: .toolchain/ready ## start a development agent and create a first machine on it
	@$(DENO) run --quiet --cached-only --no-prompt $(ALLOW) main.ts demo

test: .toolchain/ready check ## run the checks and the tests (some 6 minutes); names what was skipped
	@$(DENO) run --quiet --cached-only -A tests/run.ts

test-full: .toolchain/ready ## run the longer tests: kills, floods, loads, many machines, and the compiled binary
	@$(DENO) run --quiet --cached-only -A tests/run.ts long

check: .toolchain/ready ## format, lint, types and the rules of the house
	@$(DENO) fmt --check --quiet
	@$(DENO) lint --quiet
	@$(DENO) check --quiet main.ts src tests vendors bench
	@$(DENO) test --quiet --cached-only -A tests/house_test.ts tests/house/

build: dist/zonewright ## make the single binary dist/zonewright

dist/zonewright: .toolchain/ready $(SOURCES) vendors/build.ts
	@$(DENO) run --quiet --cached-only -A vendors/build.ts

release: dist/zonewright ## make dist/release/: the binary, its manual, completions, materials, sums
	@$(DENO) run --quiet --cached-only -A vendors/release.ts

chaos: .toolchain/ready dist/zonewright ## kill, fill, flood and misclock the agent at full length (PART=clock, memory or endurance for some of it)
	@ZONEWRIGHT_CHAOS=full ZONEWRIGHT_CHAOS_PROGRAM=$(or $(PROGRAM),source) \
		ZONEWRIGHT_TEST_COPIES=10000 $(DENO) test --cached-only --parallel -A \
		$(or $(PART:%=tests/chaos/*%_test.ts),tests/chaos/ tests/host/zone_root_race_test.ts tests/sandbox/layers_test.ts)

crash: .toolchain/ready ## kill the agent again and again (SEED=7 SEEDS=5 CYCLES=24 PROGRAM=binary)
	@$(DENO) run --quiet --cached-only -A tests/chaos/crash_loop.ts $(SEED:%=--seed=%) \
		$(SEEDS:%=--seeds=%) $(CYCLES:%=--cycles=%) $(PROGRAM:%=--program=%)

fuzz: .toolchain/ready ## run the property tests at length: 5,000 lives of the runner, 1,000,000 inputs
	@ZONEWRIGHT_TEST_SEQUENCES=5000 ZONEWRIGHT_TEST_INPUTS=1000000 $(DENO) test --quiet --cached-only -A \
		tests/runner/model_test.ts tests/domain/parsers_fuzz_test.ts tests/domain/import_word_test.ts
	@ZONEWRIGHT_CHAOS=full $(DENO) test --quiet --cached-only -A \
		tests/sandbox/protocol_test.ts tests/sandbox/protocol_fuzz_test.ts

bench: .toolchain/ready dist/zonewright ## measure start, jobs, requests, memory and size
	@$(DENO) run --quiet --cached-only -A bench/bench.ts

bench-jobs: .toolchain/ready dist/zonewright ## measure the job engine beside its peers (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/jobs.ts $(ARGS)

bench-sandbox: .toolchain/ready dist/zonewright ## measure what the wall around tasks costs (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/sandbox.ts $(ARGS)

bench-index: .toolchain/ready dist/zonewright ## measure serving, syncs, searches and downloads (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/index.ts $(ARGS)

bench-machines: .toolchain/ready dist/zonewright ## measure what the agent adds to making machines (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/machines.ts $(ARGS)

bench-start: .toolchain/ready dist/zonewright ## measure start, size and what an idle agent uses (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/start.ts $(ARGS)

clean: ## remove what was built and fetched
	rm -rf dist run .toolchain

.toolchain/ready: vendors/toolchain.sh deno.json deno.lock
	@sh vendors/toolchain.sh
	@$(DENO) install --quiet --frozen --entrypoint main.ts vendors/std/*.ts tests/*.ts
	@touch $@
