# Every target sets up what it needs by itself, once, inside .toolchain/ (git-ignored).

DENO := .toolchain/bin/deno
export DENO_DIR := $(CURDIR)/.toolchain/cache
export DENO_NO_UPDATE_CHECK := 1
# The certificates of the system count too, as they do for npm.
export DENO_TLS_CA_STORE ?= mozilla,system
ALLOW := --allow-read --allow-write --allow-net --allow-env --allow-run --allow-sys
UI_SOURCES := $(shell find src/ui -type f 2>/dev/null) src/domain/job/state.ts src/domain/error.ts \
	vendors/ui.ts deno.json deno.lock
SOURCES := $(shell find main.ts src -name '*.ts' 2>/dev/null) deno.json deno.lock

.DEFAULT_GOAL := help
.PHONY: help run fleet test test-full test-node check chaos crash fuzz bench bench-jobs bench-fleet bench-sandbox bench-machines bench-index bench-start bench-history bench-console bench-cpu ui release build build-node clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

run: .toolchain/ready dist/ui.json ## start a development agent and create a first machine on it
	@$(DENO) run --quiet --cached-only --no-prompt $(ALLOW) main.ts demo

fleet: .toolchain/ready dist/zonewright ## start three agents with simulated hosts on one PostgreSQL database
	@ZONEWRIGHT_TEST_PROGRAM=binary $(DENO) run --quiet --cached-only -A tests/fleet.ts

test: .toolchain/ready dist/zonewright check ## run the checks and the tests (about 6 minutes); names what was skipped
	@$(DENO) run --quiet --cached-only -A tests/run.ts

test-full: .toolchain/ready .toolchain/node/ready dist/zonewright dist/zonewright.mjs ## run the longer tests: kills, floods, loads, many machines, and the compiled binary
	@$(DENO) run --quiet --cached-only -A tests/run.ts long
	-@$(DENO) run --quiet --cached-only -A bench/cpu.ts --compare

test-node: .toolchain/ready .toolchain/node/ready dist/zonewright.mjs ## run the whole-program tests on the oldest and the newest Node
	@$(DENO) run --quiet --cached-only -A tests/run.ts node

# The check of types takes longer than all else together, on one processor.
check: .toolchain/ready ## format, lint, types and the source rules
	@$(DENO) check --quiet main.ts src tests vendors bench & \
	$(DENO) fmt --check --quiet && $(DENO) lint --quiet && \
	$(DENO) test --quiet --cached-only -A tests/house_test.ts tests/house/; others=$$?; \
	wait $$! && exit $$others

ui: dist/ui.json ## bundle the web console for a program that runs from source

dist/ui.json: .toolchain/ready $(UI_SOURCES)
	@$(DENO) run --quiet --cached-only -A vendors/ui.ts
	@touch $@

build: dist/zonewright ## make the single binary dist/zonewright

dist/zonewright: .toolchain/ready dist/ui.json $(SOURCES) vendors/build.ts
	@$(DENO) run --quiet --cached-only -A vendors/build.ts

build-node: dist/zonewright.mjs ## make dist/zonewright.mjs, the program in one file for Node

dist/zonewright.mjs: .toolchain/ready dist/ui.json $(SOURCES) $(wildcard vendors/node/*.ts) vendors/build_node.ts
	@$(DENO) run --quiet --cached-only -A vendors/build_node.ts

release: dist/zonewright dist/zonewright.mjs ## make dist/release/: binary, file for Node, manual, completions, materials, sums
	@$(DENO) run --quiet --cached-only -A vendors/release.ts

chaos: .toolchain/ready dist/zonewright $(if $(filter /%,$(PROGRAM)),dist/zonewright.mjs) ## kill, fill and flood the agent, and shift its clock, at full length (PART=clock for some of it, PROGRAM as below)
	@ZONEWRIGHT_CHAOS=full ZONEWRIGHT_TEST_PROGRAM=$(or $(PROGRAM),binary) \
		ZONEWRIGHT_TEST_COPIES=10000 $(DENO) test --cached-only --parallel -A \
		$(or $(PART:%=tests/chaos/*%_test.ts),tests/chaos/ tests/host/zone_root_race_test.ts tests/sandbox/layers_test.ts tests/store/postgres_failover_test.ts)

crash: .toolchain/ready ## kill the agent again and again (SEED=7 SEEDS=5 CYCLES=24 PROGRAM=binary or the path of a Node)
	@$(DENO) run --quiet --cached-only -A tests/chaos/crash_loop.ts $(SEED:%=--seed=%) \
		$(SEEDS:%=--seeds=%) $(CYCLES:%=--cycles=%) $(PROGRAM:%=--program=%)

fuzz: .toolchain/ready ## run the property tests at length: 5,000 lives of the runner, 1,000,000 inputs
	@ZONEWRIGHT_TEST_SEQUENCES=5000 ZONEWRIGHT_TEST_INPUTS=1000000 $(DENO) test --quiet --cached-only -A \
		tests/runner/model_test.ts tests/domain/parsers_fuzz_test.ts tests/domain/import_word_test.ts
	@ZONEWRIGHT_CHAOS=full $(DENO) test --quiet --cached-only -A \
		tests/sandbox/protocol_test.ts tests/sandbox/protocol_fuzz_test.ts

bench: .toolchain/ready dist/zonewright $(if $(PROGRAM),dist/zonewright.mjs) ## measure start, jobs, requests, memory and size (PROGRAM=paths of Nodes, for those beside it)
	@$(DENO) run --quiet --cached-only -A bench/bench.ts $(PROGRAM)

bench-jobs: .toolchain/ready dist/zonewright ## measure the job engine beside its peers (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/jobs.ts $(ARGS)

bench-fleet: .toolchain/ready dist/zonewright ## measure agents on a shared PostgreSQL beside graphile-worker (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/fleet.ts $(ARGS)

bench-sandbox: .toolchain/ready dist/zonewright ## measure what the wall around tasks costs (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/sandbox.ts $(ARGS)

bench-index: .toolchain/ready dist/zonewright ## measure serving, syncs, searches and downloads (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/index.ts $(ARGS)

bench-machines: .toolchain/ready dist/zonewright ## measure what the agent adds to making machines (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/machines.ts $(ARGS)

bench-start: .toolchain/ready dist/zonewright ## measure start, size and what an idle agent uses (ARGS=--quick)
	@$(DENO) run --quiet --cached-only -A bench/start.ts $(ARGS)

bench-history: .toolchain/ready ## measure lists, counts and statistics of a million jobs
	@$(DENO) run --quiet --cached-only -A bench/history.ts

bench-console: .toolchain/ready dist/zonewright ## measure first paints and filters of the console with 100,000 jobs
	@$(DENO) run --quiet --cached-only -A bench/console.ts

bench-cpu: .toolchain/ready dist/zonewright ## measure the processor time of a job (ARGS=BINARY... to compare)
	@$(DENO) run --quiet --cached-only -A bench/cpu.ts $(ARGS)

clean: ## remove what was built and fetched
	rm -rf dist run .toolchain

.toolchain/node/ready: .toolchain/ready vendors/nodes.ts vendors/pins.ts
	@$(DENO) run --quiet --cached-only -A vendors/nodes.ts
	@touch $@

.toolchain/ready: vendors/toolchain.sh deno.json deno.lock
	@sh vendors/toolchain.sh
	@$(DENO) install --quiet --frozen --entrypoint main.ts src/ui/main.tsx vendors/node/install.ts vendors/std/*.ts tests/*.ts tests/ui/*.ts
	@$(DENO) run --quiet --cached-only -A vendors/bundler.ts
	@touch $@
