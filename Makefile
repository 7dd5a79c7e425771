# `make help` lists the targets. Set-up and longer recipes are scripts in .ci.

# VERSION=v0.3.0 names a release of its tag.
VERSION  := $(shell git describe --tags --always --dirty=+dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 30s
# How long soak repeats random tests.
MINUTES ?= 60
# The architecture of test-kernels' machines, amd64 or arm64, and their kernels.
ARCH     ?= amd64
KERNELS  ?= $(if $(filter amd64,$(ARCH)),6.1 6.12,6.12)
# Regular expressions of packages and tests for test-kernels; empty means all, on arm64 a
# sample.
SUITES   ?=
TESTS    ?=

# Debian installs nft and ip where not every PATH finds them.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

# The same flags for everything, so that nothing is compiled twice. Only tests with the
# race detector need cgo.
export CGO_ENABLED := 0
export GOFLAGS     := $(shell go env GOFLAGS) -trimpath
ifeq ($(CI),true)
# Only a debugger reads DWARF, and the compiler takes 12 % of its time to write it, the linker
# a third.
GOFLAGS += -gcflags=all=-dwarf=false -ldflags=-w
endif

# Tests with packets wait most of their time: more packages and tests at once than processors.
TOGETHER := -p 3 -parallel 6

LINT := .cache/bin/golangci-lint
GREMLINS := .cache/bin/gremlins
# Packages for mutation testing, and the percentage of mutants that tests must notice. The 13 of
# 426 in model that survive change no result, only what is computed for it.
MUTANTS ?= ./model
MUTANTS_EFFICACY ?= 96
# The modules beside that of the top, without integration/otherprograms/metallb and
# integration/e2e, which take minutes to build and which only `make beside`, `make e2e`, `make move`,
# `make rollout` and `make wake-keda` need.
MODULES := cmd/kubectl-vmap deploy/helm deploy/image deploy/monitoring deploy/scaler integration/cluster integration/otherprograms integration/page

BENCHMARK := KUBE_VMAP_REQUIRE_KERNEL=1 go test -run '^$$' -benchtime 1x -timeout 2h
# A pattern that matches no benchmark is an error.
MATCHED := awk '{ print; fflush() } /^Benchmark/ { n = 1 } END { if (!n) print "no benchmark matches"; exit !n }'

.PHONY: help fresh demo wake retry build modules tools test unit integration cluster page soak beside e2e move rollout wake-keda test-kernels test-nft bench bench-cluster dead-node image release fuzz mutants golden lint lines docs man monitoring clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## run a demonstration: Services from manifests, real packets (root)
	@.ci/setup nft
	go test -c -o bin/demo ./integration/demo
	KUBE_VMAP_REQUIRE_KERNEL=1 KUBE_VMAP_BINARY=$(CURDIR)/bin/kube-vmap bin/demo -test.run '^$(or $(DEMO),TestDemo)$$' $(VERBOSE)

wake: ## run the second demonstration: a Service without a pod holds its clients until there is one (root)
	@$(MAKE) --no-print-directory demo DEMO=TestWake

retry: ## run the third demonstration: a rollout of a program that refuses connections, without and with retries (root)
	@$(MAKE) --no-print-directory demo DEMO=TestRetry

build: ## build bin/kube-vmap and bin/kubectl-vmap, static binaries
	go build -ldflags '-X main.version=$(VERSION)' -o bin/kube-vmap ./cmd/kube-vmap
	go -C cmd/kubectl-vmap build -ldflags '-X main.version=$(VERSION)' -o ../../bin/kubectl-vmap .

modules: ## download the modules that the build, the tests and the tools need
	@for module in . $(MODULES) .ci/licenses .ci/lint .ci/mutants; do go -C $$module mod download || exit; done

tools: $(LINT) ## build the linter, and the control plane that tests run
	@.ci/cluster

test: unit integration cluster page ## all tests, set-up included (root)

unit: ## unit, property and golden tests, with the race detector where there are goroutines (root)
	@.ci/setup nft ip cc
	@.ci/nft-versions
	@.ci/promtool
	.ci/unit

integration: ## tests with real packets between network namespaces (root)
	@.ci/setup nft ip sysctl iptables ipset
	@.ci/nft-versions
	@.ci/other-programs
	.ci/with-programs .ci/gotest -short -count=1 -timeout 60m $(TOGETHER) ./integration/...

cluster: ## tests against a real etcd, API server and controllers (root)
	@.ci/setup nft ip sysctl iptables ipset
	@.ci/cluster
	MODULE=integration/cluster .ci/with-programs .ci/gotest -short -count=1 -timeout 60m -parallel 5 ./...

page: ## tests of the page in a browser (root)
	@.ci/setup nft ip chromium
	MODULE=integration/page .ci/with-programs .ci/gotest -short -count=1 -timeout 30m $(TOGETHER) ./...

fresh: ## README's commands in a clone, on a minimal Debian with Go, git and make, without caches; LOAD=1 keeps a processor busy (root)
	@LOAD='$(LOAD)' .ci/fresh

soak: ## the long suite: longer tests, and random ones with new seeds for MINUTES (60) (root)
	@.ci/setup nft ip sysctl iptables ipset chromium
	@.ci/nft-versions
	@ALL=1 .ci/other-programs
	@.ci/cluster
	MINUTES='$(MINUTES)' .ci/soak

beside: ## tests beside other programs of a node, also those that CI has no time for (root)
	@.ci/setup nft ip sysctl iptables ipset
	@ALL=1 .ci/other-programs
	.ci/with-programs .ci/gotest -count=1 -run Beside ./integration/matrix

e2e: ## upstream's e2e tests of SIG Network, or those of FOCUS, on a cluster of kubeadm with kube-vmap (root)
	@.ci/setup ip jq
	@.ci/cluster
	FOCUS='$(FOCUS)' integration/e2e/run

move: ## README's quick start, there and back, on three nodes with traffic and kube-proxy in MODE (iptables) (root)
	@.ci/setup ip jq
	@.ci/cluster
	MODE='$(MODE)' integration/e2e/move

rollout: ## refused connections in rollouts of a naive program: kube-proxy in MODE (nftables), kube-vmap, and its retries (root)
	@.ci/setup ip jq
	@.ci/cluster
	MODE='$(MODE)' integration/e2e/rollout

wake-keda: ## WAKES (200) clients of Deployments that the real KEDA scales from zero, with kubeadm on three nodes (root)
	@.ci/setup ip jq
	@.ci/cluster
	WAKES='$(WAKES)' integration/e2e/wake-keda

test-kernels: ## tests with packets and of the rule set on Debian's KERNELS under qemu; SUITES, TESTS and ARCH choose, SUITES=cluster a move from IPVS
ifeq ($(ARCH),amd64)
	@.ci/setup nft ip sysctl iptables ipset ipvsadm qemu-system-x86_64 depmod xz cpio
	@.ci/nft-versions
	@$(if $(findstring cluster,$(SUITES)),.ci/cluster)
else
	@.ci/setup qemu-system-aarch64 depmod xz cpio
	GOOS=linux GOARCH=$(ARCH) go build -ldflags '-X main.version=$(VERSION)' -o bin/kube-vmap-linux-$(ARCH) ./cmd/kube-vmap
endif
	@ARCH='$(ARCH)' .ci/kernels $(KERNELS)
	go build -o bin/test-kernels ./integration/kernels
	RUN=bin/test-kernels .ci/gotest -arch '$(ARCH)' $(if $(filter amd64,$(ARCH)),,-program bin/kube-vmap-linux-$(ARCH)) \
		-suites '$(SUITES)' -run '$(TESTS)' $(KERNELS)

test-nft: ## listings are read and reload with nft 1.0.6, 1.1.3 and 1.1.7 (root)
	@.ci/setup nft
	@KUBE_VMAP_REQUIRE_NFT_VERSIONS=1 .ci/nft-versions
	CI=true .ci/gotest -count=1 -run 'Golden|NftListsAndLoads|LoadedByNft' ./integration/ruleset

bench bench-cluster: SHELL := bash -o pipefail

bench: ## costs as ratios, and whether they keep their marks; BENCH chooses (root)
	$(BENCHMARK) -bench '$(or $(BENCH),.)' ./integration/bench | $(MATCHED)

bench-cluster: ## from API write to kernel, compared with informers alone, on a real API server (root)
	@.ci/setup nft ip
	@.ci/cluster
	cd integration/cluster && $(BENCHMARK) -bench '$(or $(BENCH),KubeVMap)' ./bench | $(MATCHED)

dead-node: ## how many connections fail after a FAULT (link, route, backlog or stop), with kube-proxy and kube-vmap (root)
	@$(MAKE) bench-cluster BENCH='DeadNode/$(or $(FAULT),link)'

image: ## build the container images for amd64 and arm64 (or ARCH), and their SBOMs, in bin/image
	.ci/image '$(VERSION)'

release: ## make the release VERSION of this commit in bin/release, and check that it is reproducible
	.ci/release '$(VERSION)' '$(URL)'

fuzz: ## FUZZTIME (30s) of each fuzz target
	FUZZTIME=$(FUZZTIME) .ci/fuzz

mutants: $(GREMLINS) ## mutation testing of model (and what MUTANTS names): which changed lines no test notices
	@# With -short the tests of costs and distributions, which no mutant needs, are skipped.
	@for package in $(MUTANTS); do \
		GOFLAGS='$(GOFLAGS) -short' $(GREMLINS) unleash --workers 1 --timeout-coefficient 10 \
			--threshold-efficacy $(MUTANTS_EFFICACY) --output-statuses lt $$package || exit; \
	done

golden: ## rewrite the golden files from the kernel's listings (root); read the diff
	@.ci/setup nft
	.ci/golden

lint: $(LINT) ## formatting, the rules of .golangci.yml, and words that have a standard term
	@.ci/words
	@for module in . $(MODULES); do (cd $$module && $(CURDIR)/$(LINT) run -c $(CURDIR)/.golangci.yml ./...) || exit; done
	@if command -v shellcheck >/dev/null; then shellcheck deploy/configure $$(find .ci -maxdepth 1 -type f) $$(find integration/e2e -maxdepth 1 -type f -perm -u+x); fi

lines: ## how much ships, tests it, is testdata, and how many words documents have
	@.ci/lines

docs: ## update the listings in docs/design.md, and the pictures in docs/pictures
	go test -count=1 ./integration/docs -update

man: ## generate the manual pages in deploy/man from the commands' help texts
	go test -count=1 -run TestManualPagesAreUpToDate ./cmd/kube-vmap -update

monitoring: ## copy deploy/monitoring/rules.yaml to prometheusrule.yaml, for the Prometheus operator
	cd deploy/monitoring && sed -i '/^  groups:/,$$d' prometheusrule.yaml && \
		sed -n '/^groups:/,$$ { s/./  &/; p }' rules.yaml >> prometheusrule.yaml

clean: ## remove what was built and fetched
	rm -rf bin .cache

# The linter has a module of its own, so that its dependencies are not ours.
$(LINT): .ci/lint/go.mod .ci/lint/go.sum
	@echo "building the linter; takes some minutes, once"
	go -C .ci/lint build -ldflags '-s -w' -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# The same for the tool for mutation testing.
$(GREMLINS): .ci/mutants/go.mod .ci/mutants/go.sum
	go -C .ci/mutants build -ldflags '-s -w' -o ../../$(GREMLINS) github.com/go-gremlins/gremlins/cmd/gremlins
