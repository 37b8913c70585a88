package apexlog

import (
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
)

// shaped has the rules, and what else shapes records, applied by new processes.
func (b *bench) shaped(cfg shape.Config, rules string) {
	b.t.Helper()
	if rules != "" {
		t, err := shape.ParseTransforms([]byte(rules), SourceLabel, []byte("pepper"))
		if err != nil {
			b.t.Fatal(err)
		}
		cfg.Transforms = t
	}
	sh, err := shape.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.config = func(c *Config) { c.Shape, c.Overlap = sh, 0 }
}

// all is what a pass writes, its account last.
func (b *bench) all() []line {
	b.t.Helper()
	lines, err := b.pull()
	if err != nil || len(lines) == 0 || lines[len(lines)-1].Account == nil {
		b.t.Fatalf("%v: %+v", err, lines)
	}
	return lines
}

func TestRulesReachTheBody(t *testing.T) { // Z13
	b := newBench(t)
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(2 * time.Hour), Body: "USER_INFO|ada@acme.example|x\npassword=hush\n"})
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(time.Hour), Body: "heartbeat of a robot"})
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(30 * time.Minute), Body: ""})
	b.shaped(shape.Config{}, `
apexlog:
  - {action: drop_row, match: {Body: 'heartbeat*'}}
  - {action: regex_replace, fields: [Body], pattern: '(?m)^(password=).*$', replacement: '\1***'}
  - {action: regex_replace, fields: [Body], pattern: '[a-z]+@', replacement: '***@'}
  - {action: hash, fields: [LogUserId]}
  - {action: drop_field, fields: [Request]}
  - {action: mask, fields: [NoSuch]}
`)
	lines := b.all()
	if len(lines) != 3 || lines[0].Line != "USER_INFO|***@acme.example|x\npassword=***\n" || lines[1].Line != "" || lines[1].Only {
		t.Fatalf("lines: %+v", lines)
	}
	md := lines[0].Metadata
	if _, there := md["Request"]; there || len(md["LogUserId"]) != 16 || md["Operation"] == "" {
		t.Errorf("metadata: %v", md)
	}
	if a := lines[2].Account; a == nil || a.Rows != 3 || a.Filtered != 1 {
		t.Errorf("account: %+v", a)
	}
	if n := strings.Count(b.log.String(), "column=NoSuch"); n != 1 {
		t.Errorf("the missing column is told %d times", n)
	}
	if again := b.all(); len(again) != 1 || again[0].Account.Rows != 0 {
		t.Errorf("again: %+v", again)
	}
}

// A body that a rule drops is not asked for.
func TestNoBodies(t *testing.T) {
	b := newBench(t)
	b.add(2, b.ago(2*time.Hour))
	b.shaped(shape.Config{}, `apexlog: [{action: drop_field, fields: [Body]}, {action: drop_field, fields: [Location]}]`)
	lines := b.all()
	if b.bodies() != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0].Line, `{"Id":"07L`) || strings.Contains(lines[0].Line, "Location") ||
		lines[0].Metadata["body_skip_reason"] != "rule" || lines[0].Metadata["Location"] != "" {
		t.Errorf("%d bodies, %+v", b.bodies(), lines)
	}
}

// What is not in the sample costs no call, and moves the position.
func TestSample(t *testing.T) { // #64
	b := newBench(t)
	b.add(30, b.ago(2*time.Hour))
	rates, err := shape.ParseRates([]string{"0.3"})
	if err != nil {
		t.Fatal(err)
	}
	b.shaped(shape.Config{Rates: rates}, "")
	lines := b.all()
	kept := len(lines) - 1
	if kept == 0 || kept == 30 || b.bodies() != kept {
		t.Fatalf("%d logs, %d bodies", kept, b.bodies())
	}
	a := lines[kept].Account
	if a.Rows != 30 || a.SampledOut != int64(30-kept) || lines[kept].Value == "" {
		t.Errorf("account: %+v at %s", a, lines[kept].Value)
	}
	typ := mustShape(t, rates).Type(SourceLabel, EventType)
	for _, l := range lines[:kept] {
		if !typ.Keep([]byte(l.Origin)) {
			t.Errorf("%s is not in the sample", l.Origin)
		}
	}
}

func mustShape(t *testing.T, rates []shape.Rate) *shape.Shape {
	t.Helper()
	s, err := shape.New(shape.Config{Rates: rates})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
