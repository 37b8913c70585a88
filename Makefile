# make help lists the targets. Nothing here downloads anything but Go modules.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
VERSION ?=
FUZZTIME ?= 10s
BENCH ?= .
COUNT ?= 1
PGO ?= auto
KILLS ?= 200
ROUNDS ?= 30
SOAK ?= 1h
SEED ?= 1
FILE_MB ?= 200
OFFER_MB ?= 10000
PKG ?= ./...
STORES ?= s3 gs azblob
BLOWS ?= 10
GO ?= go

PROGRAMS = sf-pull loki-push dl-replay ckpt
RELEASE = $(if $(VERSION),-X sf2loki/pkg/cli.release=$(VERSION))
SHELLS = $(shell grep -slE '^\#!.*(sh|bash)$$' scripts/* scripts/packages/* .ci/run) $(wildcard scripts/lib/*.sh)
SHARE = $(DESTDIR)$(PREFIX)/share
COMPLETIONS = $(SHARE)/bash-completion/completions
ZSH = $(SHARE)/zsh/site-functions
FISH = $(SHARE)/fish/vendor_completions.d
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system

.PHONY: all build test cover test-more test-stores test-kube check lint generate fuzz lanes chaos proof peers vulncheck soak large bench profile sizes dashboards screenshots demo install uninstall dist packages clean help

all: build

build: ## build the programs into bin/
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -pgo '$(PGO)' -ldflags '$(RELEASE)' -o bin/ ./cmd/...

test: ## run all tests
	$(GO) test $(PKG)

cover: ## what of each package its own tests run, and functions below 60 %
	@scripts/cover $(PKG:./...=./pkg/...)

test-stores: ## test stores and leases on real servers, STORES (s3 gs azblob)
	STORES='$(STORES)' $(GO) test -p 1 -tags stores -run 'Servers' -count=1 ./pkg/checkpoint ./pkg/lease

test-kube: ## test leases on a real kube-apiserver (built once, 10 minutes; needs etcd)
	tools=$$(scripts/test-tools kube-apiserver) && \
		KUBE_APISERVER="$$tools/kube-apiserver" $(GO) test -tags kube -run '^TestKube' -count=1 -v -timeout 20m ./cmd/ckpt -blows $(BLOWS)

check: lint ## lint, and all tests under the race detector
	GORACE=atexit_sleep_ms=0 $(GO) test -race $(PKG)

lint: ## gofmt, vet, staticcheck, shellcheck, shfmt, manual pages
	@test -z "$$(gofmt -s -l cmd pkg scripts)" || { gofmt -s -d cmd pkg scripts; exit 1; }
	$(GO) vet ./...
	tools=$$(scripts/test-tools staticcheck shfmt) && "$$tools/staticcheck" ./... && "$$tools/shfmt" -d $(SHELLS)
	shellcheck $(SHELLS)
	mandoc -T lint -W warning man/*

test-more: ## tests with DuckDB, Iceberg, Kafka, NATS, jq 1.7 (npm, kcat, large modules); 200 kills of a replay; a spool of 1 GB; a million of everything
	for module in dl-iceberg topictest; do (cd scripts/$$module && $(GO) vet . && $(GO) test .) || exit 1; done
	LETTERTEST_KILLS=200 LETTERTEST_LINE=10000 LETTERTEST_MANY=1000000 $(GO) test -v -timeout 1h -run 'TestKill|TestD34|TestMemory' ./scripts/lettertest
	LETTERTEST_JQ='$(CURDIR)/scripts/lettertest/testdata/jq17' $(GO) test -run TestRoundTrip ./scripts/lettertest

generate: ## make the code of the event bus anew from eventbus.proto (protoc, protoc-gen-go, protoc-gen-go-grpc)
	protoc -I pkg/pubsub/eventbus --go_out=. --go_opt=module=sf2loki --go-grpc_out=. --go-grpc_opt=module=sf2loki eventbus.proto

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@scripts/fuzz '$(FUZZTIME)' $(PKG)

lanes: ## kill any process of lanes KILLS times, 1 GB of backlog beside a stream, failover in time; all tests in all shells
	SUPERVISOR_KILLS=$$((($(KILLS) + 2) / 3)) SUPERVISOR_SEED='$(SEED)' SUPERVISOR_BACKLOG_MB=1024 SUPERVISOR_STRICT=1 \
		$(GO) test -count=1 -v -timeout 2h -parallel 1 -run '^(TestKillAnyProcess|TestBacklogBesideAStream|TestFailover)$$' ./scripts
	SUPERVISOR_LONG=1 $(GO) test -count=1 -timeout 1h ./scripts

chaos: ## kill stages at random, KILLS times (200), and make other trouble for ROUNDS (30), by SEED
	PIPETEST_KILLS='$(KILLS)' PIPETEST_SEED='$(SEED)' $(GO) test -count=1 -v -timeout 2h -run '^TestKill' ./scripts/pipetest
	PROOFTEST_ROUNDS='$(ROUNDS)' PROOFTEST_SEED='$(SEED)' $(GO) test -count=1 -v -timeout 1h -run '^TestTrouble$$' ./scripts/prooftest
	$(GO) test -count=1 -v -timeout 1h -run '^TestContenders' ./cmd/ckpt -blows 50

proof: ## plant bugs and secrets, fill holes that an audit finds
	PROOFTEST_ALL=1 $(GO) test -count=1 -v -timeout 1h ./scripts/prooftest

peers: ## measure the memory of programs whose peers hang or answer without end, OFFER_MB offered (10000)
	PROOFTEST_ALL=1 PROOFTEST_OFFER_MB='$(OFFER_MB)' PROOFTEST_HANG_SECONDS=30 \
		$(GO) test -count=1 -v -timeout 5h -run '^Test(Org|Sink|Bus)Peers$$' ./scripts/prooftest

vulncheck: ## look for packages with known vulnerabilities
	scripts/vulncheck

soak: ## follow an org for SOAK (1h) with faults, and watch memory and descriptors
	SOAK='$(SOAK)' $(GO) test -count=1 -v -timeout 30h -run '^TestSoak$$' ./scripts/prooftest

large: ## push a file of FILE_MB (200) into a simulated Loki and into VictoriaLogs
	PIPETEST_FILE_MB='$(FILE_MB)' $(GO) test -count=1 -v -timeout 1h -run '^TestLargeFile$$' ./scripts/pipetest

bench: ## run the benchmarks that match BENCH, COUNT times (1): programs and steps, beside the standard library
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count '$(COUNT)' -timeout 3h $(PKG)

sizes: ## sizes of the programs, with and without each SDK, and how fast ckpt starts
	scripts/sizes

dashboards: ## write scripts/grafana/*.json anew
	$(GO) run ./scripts/grafana

screenshots: ## look at the status pages and an audit in a browser, pictures in docs/ (needs chromium)
	$(GO) test -tags screenshots -count=1 ./scripts/screenshots

profile: ## make bin/default.pgo of the hot paths, for make build PGO=bin/default.pgo
	@mkdir -p bin
	cd bin && $(GO) test -run '^$$' -bench 'Engine' -benchtime 20x -cpuprofile push.pprof ../pkg/loki
	cd bin && $(GO) test -run '^$$' -bench 'Records/.*order' -benchtime 20x -cpuprofile pull.pprof ../pkg/eventlog
	cd bin && $(GO) tool pprof -proto push.pprof pull.pprof >default.pgo && rm -f *.pprof *.test

demo: build ## pull from a simulated org, push, repair and replay
	PATH="$(CURDIR)/bin:$$PATH" scripts/demo

install: build ## install programs, manual pages, completions (DESTDIR, PREFIX)
	install -d '$(DESTDIR)$(BINDIR)' '$(COMPLETIONS)' '$(ZSH)' '$(FISH)'
	install -m 755 $(PROGRAMS:%=bin/%) scripts/sf2loki '$(DESTDIR)$(BINDIR)'
	install -d '$(DESTDIR)$(BINDIR)/../lib/sf2loki'
	install -m 644 scripts/lib/*.sh '$(DESTDIR)$(BINDIR)/../lib/sf2loki'
	for p in $(PROGRAMS); do \
		bin/$$p completion bash >'$(COMPLETIONS)/'$$p && bin/$$p completion zsh >'$(ZSH)/_'$$p && \
			bin/$$p completion fish >'$(FISH)/'$$p.fish || exit 1; \
	done
	for page in man/*; do \
		section='$(DESTDIR)$(MANDIR)/man'$${page##*.}; \
		install -d "$$section" && install -m 644 "$$page" "$$section" || exit 1; \
	done
	install -d '$(UNITS)' '$(UNITS)/../../sysusers.d' '$(UNITS)/../../tmpfiles.d'
	for unit in scripts/systemd/*.service scripts/systemd/*.timer; do \
		sed 's,/usr/bin/,$(BINDIR)/,' "$$unit" >'$(UNITS)/'$${unit##*/} || exit 1; \
	done
	install -m 644 scripts/systemd/sysusers.d/*.conf '$(UNITS)/../../sysusers.d'
	install -m 644 scripts/systemd/tmpfiles.d/*.conf '$(UNITS)/../../tmpfiles.d'

uninstall: ## remove what install installed
	for unit in scripts/systemd/*.service scripts/systemd/*.timer; do rm -f '$(UNITS)/'$${unit##*/}; done
	rm -f '$(UNITS)/../../sysusers.d/sf2loki.conf' '$(UNITS)/../../tmpfiles.d/sf2loki.conf'
	rm -rf '$(DESTDIR)$(BINDIR)/../lib/sf2loki'
	rm -f $(PROGRAMS:%='$(DESTDIR)$(BINDIR)/%') '$(DESTDIR)$(BINDIR)/sf2loki' $(PROGRAMS:%='$(COMPLETIONS)/%') \
		$(PROGRAMS:%='$(ZSH)/_%') $(PROGRAMS:%='$(FISH)/%.fish')
	for page in man/*; do rm -f '$(DESTDIR)$(MANDIR)/man'$${page##*.}/$${page##*/}; done

dist: ## reproducible release tarballs in dist/ (VERSION, SOURCE_DATE_EPOCH)
	VERSION='$(VERSION)' scripts/dist

packages: ## the same, and .deb, .rpm and what they are made of
	VERSION='$(VERSION)' scripts/dist packages

clean: ## remove what was built
	rm -rf bin dist

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile
