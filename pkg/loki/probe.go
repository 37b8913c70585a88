package loki

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Finding is one row of a probe's report.
type Finding struct {
	Check  string // what was tried
	Level  Level
	Detail string // what was found
	Cure   string // what to do about it; empty on a pass
	Code   sysexits.Code
}

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "PASS"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// ProbeConfig is how entries will be pushed.
type ProbeConfig struct {
	Push      Pusher
	Endpoint  string
	Labels    []record.Pair // added to the probe's own
	HourLabel string        // "": none
	Sharding  bool          // also find out whether the server shards fast streams
}

// Probe sends one entry of the shape that real ones have, labels, metadata and
// all, and says what is wrong if it is not stored. What it sends stays in Loki,
// under the label source="loki-push-probe".
func Probe(ctx context.Context, cfg ProbeConfig) []Finding {
	p := &prober{ctx: ctx, cfg: cfg, now: time.Now()}
	if p.push() {
		p.again()
		if cfg.Sharding {
			p.sharding()
		}
	}
	return p.findings
}

// ProbeResult is the probe's verdict: the first failure, nil when there is none.
func ProbeResult(findings []Finding) error {
	for _, f := range findings {
		if f.Level == Fail {
			return sysexits.Errorf(f.Code, "probe: %s: %s", f.Check, f.Detail)
		}
	}
	return nil
}

type prober struct {
	ctx      context.Context
	cfg      ProbeConfig
	now      time.Time
	findings []Finding
}

func (p *prober) found(check string, level Level, detail, cure string, code sysexits.Code) {
	if level != Fail {
		code = sysexits.OK
	}
	p.findings = append(p.findings, Finding{check, level, detail, cure, code})
}

// labels are those of a real entry, with extra ones.
func (p *prober) labels(extra ...record.Pair) []byte {
	labels := []record.Pair{
		{Name: []byte("event_type"), Value: []byte("Probe")},
		{Name: []byte("source"), Value: []byte("loki-push-probe")},
	}
	if p.cfg.HourLabel != "" {
		labels = append(labels, record.Pair{Name: []byte(p.cfg.HourLabel), Value: p.now.UTC().AppendFormat(nil, "2006-01-02T15")})
	}
	for _, l := range append(extra, p.cfg.Labels...) {
		if !hasPair(labels, l.Name) {
			labels = append(labels, l)
		}
	}
	return AppendLabels(nil, labels)
}

func (p *prober) entry(md bool) []byte {
	line := record.AppendTime([]byte(`{"EVENT_TYPE":"Probe","TIMESTAMP_DERIVED":"`), p.now.UnixNano())
	line = append(line, `","note":"sent by loki-push probe"}`...)
	var pairs []record.Pair
	if md {
		pairs = []record.Pair{{Name: []byte("level"), Value: []byte("info")}}
	}
	return AppendEntry(nil, p.now.UnixNano(), line, pairs)
}

func (p *prober) send(labels []byte, entries ...[]byte) Verdict {
	return Judge(p.cfg.Push.Push(p.ctx, AppendPush(nil, labels, entries)))
}

// push sends the entry and tells whether it was stored.
func (p *prober) push() bool {
	began := time.Now()
	v := p.send(p.labels(), p.entry(true))
	took := time.Since(began).Round(time.Millisecond)
	switch {
	case v.Class == Stored:
		p.found("push", Pass, fmt.Sprintf("%s stored an entry with labels and metadata in %s", p.cfg.Endpoint, took), "", 0)
		return true
	case v.Status == 0:
		p.found("push", Fail, v.String(), orText(v.Hint, "look at --url, the network, the proxy and TLS"), v.Code)
		return false
	}
	code := v.Code
	if v.Class == Partial || v.Class == Refused {
		code = sysexits.Config
	}
	detail := v.String()
	if len(v.Faults) > 0 && v.Detail != "" {
		detail += ": " + v.Detail
	}
	p.found("push", Fail, detail, p.cure(&v), code)
	return false
}

// cure finds out by a second entry without metadata whether that is to blame.
func (p *prober) cure(v *Verdict) string {
	cure := v.Hint
	if v.Class == Partial || v.Class == Refused {
		if bare := p.send(p.labels(), p.entry(false)); bare.Class == Stored {
			p.found("push without metadata", Pass, "the same entry without metadata is stored", "", 0)
			return "structured metadata is disabled on the server: allow it (limits_config.allow_structured_metadata, schema v13)"
		}
		if cure == "" && len(v.Faults) > 0 {
			cure = breakerCure(v.Faults[0].Reason)
		}
	}
	return cure
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// again sends the same entry once more, as happens after every lost reply.
func (p *prober) again() {
	if v := p.send(p.labels(), p.entry(true)); v.Class != Stored {
		p.found("repeat", Fail, "the same entry again: "+v.String(), orText(v.Hint, "repeats must be taken, or nothing can be sent twice"), orCode(v.Code))
		return
	}
	p.found("repeat", Pass, "the same entry again is taken", "", 0)
}

func orCode(c sysexits.Code) sysexits.Code {
	if c == sysexits.OK {
		return sysexits.Config
	}
	return c
}

const (
	shardingRounds = 8
	shardingBody   = 1 << 20
)

// sharding sends a stream as fast as it goes, each request with one entry in
// front that lies two hours behind. A Loki that does not shard refuses that
// entry every time; one that deals the stream out to shards answers for the
// last shard only, and says that all is stored.
func (p *prober) sharding() {
	const check = "sharding"
	own := record.Pair{Name: []byte("probe"), Value: fmt.Appendf(nil, "sharding-%08x", rand.Uint32())}
	labels := p.labels(own)
	if v := p.send(labels, p.entry(false)); v.Class != Stored {
		p.found(check, Fail, v.String(), v.Hint, orCode(v.Code))
		return
	}
	refused := 0
	for round := range shardingRounds {
		v := p.send(labels, AppendEntry(nil, p.now.Add(-2*time.Hour).UnixNano()+int64(round), []byte("late"), nil), p.filling(round))
		switch {
		case v.Sharded, v.Class == Stored && refused > 0:
			p.found(check, Pass, "the server shards fast streams: keep --stream-bytes-per-second at its default", "", 0)
			return
		case v.Class == Stored:
			p.found(check, Warn, "the server takes entries two hours behind their stream's newest, so its answers do not tell",
				"leave --stream-bytes-per-second at its default", 0)
			return
		case v.Class == RateLimited || v.Class == StreamRate:
			p.found(check, Warn, "the server limits the rate before anything shows: "+v.String(),
				"leave --stream-bytes-per-second at its default", 0)
			return
		case v.Class != Partial:
			p.found(check, Fail, v.String(), v.Hint, orCode(v.Code))
			return
		}
		refused++
	}
	p.found(check, Pass, fmt.Sprintf("%d requests of %d bytes, one after the other, and the server did not shard the stream: --stream-bytes-per-second 0 is safe",
		refused, shardingBody), "", 0)
}

// filling is a megabyte of entries.
func (p *prober) filling(round int) []byte {
	var entries []byte
	line := []byte(strings.Repeat("x", 990))
	for i := 0; len(entries) < shardingBody; i++ {
		entries = AppendEntry(entries, p.now.UnixNano()+int64(round*10000+i), fmt.Appendf(line[:990:990], "%09d", i), nil)
	}
	return entries
}
