# weir's commands. `make` alone lists them; a fresh machine needs Go and make, `make test` fetches the rest.

.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -o pipefail -c
.PHONY: help build install run tools tools-race test test-all quick mutants test-chart test-page test-apiserver soak lint lint-vet \
	staticcheck lint-modules lines fuzz bench accuracy image release publish chart-docs clean print-flavour FORCE

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 20s

# What holds Go files. The top-level names of this repository are fixed, so the list is.
GO_DIRS := backend cmd descriptors helm k8s server

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One flavour for everything: what is compiled for the tests is what make build, the image and vet use, too. Without
# DWARF compiling takes a sixth less; stack traces and profiles need none. For a debugger: go build ./cmd/weir.
FLAVOUR := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(FLAVOUR),$(GOFLAGS)) $(FLAVOUR))
export CGO_ENABLED := 0

build: ## bin/weir, one static binary
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o bin/weir ./cmd/weir

# As go install: into GOBIN, or GOPATH's bin. With PREFIX, as in make install PREFIX=/usr/local, into its bin.
install: build ## puts weir on the PATH: into PREFIX/bin, or else where go install puts commands
	@dir="$(if $(PREFIX),$(DESTDIR)$(PREFIX)/bin)"; dir="$${dir:-$$($(GO) env GOBIN)}"; \
		dir="$${dir:-$$($(GO) env GOPATH | cut -d: -f1)/bin}" && mkdir -p "$$dir" && install -m 0755 bin/weir "$$dir/weir" && \
		echo "$$dir/weir" && { found=$$(command -v weir || true); \
		[ "$$found" -ef "$$dir/weir" ] || echo "Your shell finds $${found:-no weir}: put $$dir first on your PATH."; }

# The weir under test, also under the incumbent's name, as the image has it.
bin/test/weir: FORCE
	@mkdir -p bin/test
	@$(GO) build -o $@ ./cmd/weir && ln -f $@ bin/test/ratelimit

bin/test-race/weir: FORCE
	@mkdir -p bin/test-race
	@CGO_ENABLED=1 $(GO) build -race -gcflags='go.etcd.io/bbolt/...=-d=checkptr=0' -o $@ ./cmd/weir && ln -f $@ bin/test-race/ratelimit

print-flavour:
	@echo "export GOFLAGS='$(GOFLAGS)' CGO_ENABLED=$(CGO_ENABLED)"

FORCE:

run: build ## serve the example configuration on this machine, counting in memory
	@echo
	@echo "Paste this in another terminal to see a limit being hit:"
	@echo
	@echo "    $(CURDIR)/bin/weir call --addr 127.0.0.1:$${GRPC_PORT:-8081} --domain shop --descriptor 'user=ann' --rate 2 --for 15s"
	@echo
	@echo "and look at its curve: http://127.0.0.1:$${DEBUG_PORT:-6070}/"
	@echo
	@# Nobody has to hear of its end, so Ctrl-C need not wait for the drain.
	@# On loopback, operators need no token to change counters; DEBUG_HOST= has the admin port on all addresses.
	@DRAIN_DELAY=0s DEBUG_HOST="$${DEBUG_HOST-127.0.0.1}" exec bin/weir serve --config k8s/base/config

tools: ## what make test needs beside Go: Redis, a real Envoy, Prometheus and Chromium
	@GO=$(GO) .ci/tools

tools-race: ## the same, and the C compiler that the race detector of make test-all needs
	@GO=$(GO) .ci/tools race

test: tools ## what a change must pass: every promise once, in 600 CPU-seconds; vet, Redis, memcached, Envoy, the page in Chromium
	@GO=$(GO) .ci/test

test-all: tools-race ## what a release must pass: the race detector, staticcheck, chart, image, all topologies and releases; 20 minutes
	@GO=$(GO) .ci/test all

# The packages whose tests start no process.
quick: ## while one edits: unit tests without processes, those that the edit concerns, in a minute
	@$(GO) test -short -vet=off $$($(GO) list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | \
		awk '$$1 ~ /\.test$$/ && !/backendtest\/process/ { sub(/\.test$$/, "", $$1); print $$1 }')

mutants: tools ## puts faults into copies of the product, one a promise, and wants the tests to see each
	@GO=$(GO) .ci/mutants/run

soak: tools-race ## what takes hours: a million steps, thousands of kills, long fuzzing; its figures go to backend/backendtest/SOAK.md
	@GO=$(GO) .ci/soak

test-chart: tools ## of the tests: the chart, the kustomizations and the image: rendered, read by their APIs, run beside a real Envoy
	cd helm/charttest && $(GO) test -count=1 -timeout 20m -skip '/^signed$$' ./... # which make test-all runs: it builds cosign
	cd k8s/image && $(GO) test ./...

test-page: tools ## of the tests: the page in a real Chromium, against a real weir with a year of history; screenshots go to bin/screenshots
	cd server/page/browser && $(GO) test -count=1 -parallel 3 ./...
	@echo "What was seen: bin/screenshots"

test-apiserver: ## a real kube-apiserver takes chart and kustomizations; built once, for ten minutes
	@GO=$(GO) .ci/apiserver

lint: lint-vet staticcheck ## gofmt, vet, staticcheck, known vulnerabilities (VULN=required: fail if they cannot be looked up)
	@GO=$(GO) VULN=$(VULN) .ci/vuln

# What make test runs of it: what it looks at is compiled for the tests as well.
lint-vet:
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $(GO_DIRS)) && if [ -n "$$unformatted" ]; then \
		echo "These files are not as gofmt writes them; run gofmt -w on them:"; echo "$$unformatted"; exit 1; fi
	@if grep -rnE '^[^#]*\bimage: ' k8s --include='*.yaml' | \
		grep -vE 'image: *"?(ghcr.io/weirproxy/weir:|[^:@]+:[^:@]*[0-9]\.[0-9][^:@]*@sha256:[0-9a-f]{64})'; then \
		echo "What somebody else publishes is pinned: write name:version@sha256:digest."; exit 1; fi
	$(GO) vet ./...
	@! $(GO) list -deps ./... | grep -E '^(sigs\.)?k8s\.io/' || \
		{ echo "Take a release of github.com/prometheus/prometheus that does not link 30 MB of Kubernetes' client."; exit 1; }

staticcheck:
	$(GO) tool staticcheck ./...

lint-modules: ## vet and staticcheck of the tests' own modules: the chart's, the image's, the page's
	@for module in helm/charttest k8s/image server/page/browser server/trace/collectortest; do $(GO) -C $$module vet ./... && \
		(tool=$$($(GO) tool -n staticcheck) && cd $$module && $$tool ./...) || exit 1; done

lines: ## counts what there is to read: lines of the product by package, of its tests, bytes of its documents
	@.ci/lines

fuzz: ## each fuzz target for FUZZTIME (20s)
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

bench: ## server and Redis CPU per request beside a floor server, calls while 10,000 rules are read again, then the Go benchmarks
	$(GO) run ./cmd/weir/bench
	$(GO) run ./cmd/weir/bench --envoy
	$(GO) test -run '^$$' -bench BesideReloads -benchtime 1x ./cmd/weir/e2e
	$(GO) test -run '^$$' -bench . -benchmem ./descriptors ./backend/... ./server/...

accuracy: ## what algorithms admit and deny too early, beside those of others: backend/window/ACCURACY.md
	$(GO) test -count=1 -run Accuracy ./backend/window -write

ARCHES ?= amd64 arm64
IMAGE  ?= weir

image: ## dist/weir-image.tar, an OCI archive for amd64 and arm64, and what the Dockerfile adds; needs GNU tar, no container engine
	@for arch in $(ARCHES); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags "-X main.version=$(VERSION)" \
			-o bin/linux-$$arch/weir ./cmd/weir || exit 1; done
	cd k8s/image && $(GO) run . -version $(VERSION) -name $(IMAGE) -bin ../../bin -dist ../../dist $(ARCHES)

MACS     ?= amd64 arm64
REGISTRY ?= ghcr.io/weirproxy/weir

release: ## dist/VERSION: image, chart, binaries, bills of materials, checksums and notes of VERSION, as in VERSION=0.1.0
	@GO=$(GO) ARCHES="$(ARCHES)" MACS="$(MACS)" REGISTRY="$(REGISTRY)" \
		.ci/release "$(if $(filter command line environment,$(origin VERSION)),$(VERSION))"

# Built by Go out of its module: its version and the checksum database say what it is.
bin/cosign: FORCE
	@GOBIN="$(CURDIR)/bin" $(GO) install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

publish: ## pushes image and chart of dist/VERSION to REGISTRY; SIGN, cosign's flags, signs both: --yes by the forge's identity
	@GO=$(GO) .ci/publish "$(VERSION)" "$(REGISTRY)"

chart-docs: ## the chart's table of values, from values.yaml, and what its schema takes for descriptor files, algorithms and policies, from weir
	$(GO) -C helm/charttest test ./docs -write

clean: ## remove what make built and installed; counters in weir-data stay
	rm -rf bin dist .tools
