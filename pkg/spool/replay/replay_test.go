package replay

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func letterOf(t *testing.T, text string) *spool.Letter {
	t.Helper()
	l := &spool.Letter{}
	if err := spool.NewReader(strings.NewReader(text+"\n"), "test").Next(l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestJudge(t *testing.T) {
	const (
		fresh  = `{"ts":"2026-11-30T11:00:00Z","labels":{},"line":"x","reason":"bad_request","dead_letter":{"attempts":1}}`
		old    = `{"ts":"2026-11-20T11:00:00Z","labels":{},"line":"x","reason":"too_old","dead_letter":{"attempts":1}}`
		spent  = `{"ts":"2026-11-30T11:00:00Z","labels":{},"line":"x","reason":"bad_request","dead_letter":{"attempts":3}}`
		copied = `{"ts":"2026-11-30T11:00:00Z","labels":{},"line":"x","reason":"truncated_copy","dead_letter":{"attempts":1}}`
		gap    = `{"reason":"source_gap","dead_letter":{"attempts":1}}`
		weird  = `{"line":"x"}`
	)
	tests := []struct {
		name   string
		letter string
		set    func(o *Options)
		want   Verdict
	}{
		{"fresh", fresh, nil, Send},
		{"too old", old, nil, TooOld},
		{"too old, but any age will do", old, func(o *Options) { o.MaxAge = 0 }, Send},
		{"too old, under the present time", old, func(o *Options) { o.TS = Now }, Send},
		{"too old, clamped", old, func(o *Options) { o.TS = Clamp }, Send},
		{"too old, forced", old, func(o *Options) { o.Force = true }, Send},
		{"refused too often", spent, nil, Spent},
		{"refused too often, without limit", spent, func(o *Options) { o.MaxAttempts = 0 }, Send},
		{"refused too often, forced", spent, func(o *Options) { o.Force = true }, Send},
		{"a copy", copied, nil, Unsent},
		{"a copy, forced", copied, func(o *Options) { o.Force = true }, Unsent},
		{"a copy that is asked for", copied, func(o *Options) { o.Selection.Reasons = []string{"truncated_copy"} }, Send},
		{"a gap", gap, nil, Unsent},
		{"a gap that is asked for", gap, func(o *Options) { o.Selection.Reasons = []string{"source_gap"} }, Send},
		{"not selected", fresh, func(o *Options) { o.Selection.Reasons = []string{"too_old"} }, Other},
		{"no dead letter at all", weird, nil, Send},
	}
	for _, tt := range tests {
		o := Options{MaxAge: 7 * 24 * time.Hour, TS: Keep, MaxAttempts: 3, Now: func() time.Time { return now }}
		if tt.set != nil {
			tt.set(&o)
		}
		if got := o.Judge(letterOf(t, tt.letter), spool.New); got != tt.want {
			t.Errorf("%s: verdict %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What the pipe says has been written counts what was read and what was not.
func TestWritten(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := newLetterPipe(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.written(); got != 0 {
		t.Errorf("%d at first", got)
	}
	fmt.Fprint(w, "0123456789")
	if got := p.written(); got != 10 {
		t.Errorf("%d with nothing read", got)
	}
	if n, err := p.Read(make([]byte, 4)); n != 4 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if got := p.written(); got != 10 {
		t.Errorf("%d with some read", got)
	}
	w.Close()
	rest, err := io.ReadAll(p)
	if string(rest) != "456789" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
	if got := p.written(); got != 10 {
		t.Errorf("%d at the end", got)
	}
}

func TestOrder(t *testing.T) {
	a, b := &group{}, &group{}
	items := func() []item {
		return []item{
			{Item: spool.Item{Time: 5, Captured: 30}, group: a},
			{Item: spool.Item{Time: 1, Captured: 20}, group: a}, // the clock went back
			{Item: spool.Item{Time: 3, Captured: 10}, group: b},
			{Item: spool.Item{Time: 3, Captured: 40}, group: b},
		}
	}
	for order, want := range map[string]string{ByCapture: "10 40 30 20", ByEvent: "20 10 40 30"} {
		r := &run{Config: Config{Options: Options{Order: order}}, items: items()}
		r.sort()
		var got []string
		for _, it := range r.items {
			got = append(got, fmt.Sprint(it.Captured))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", order, got, want)
		}
	}
}

func TestVerdictsHaveStatuses(t *testing.T) {
	damage := &spool.Damage{Path: "f", Text: "no"}
	for want, res := range map[string]Result{
		"0":  {Stopped: true, Returned: 3},
		"65": {Counts: Counts{TooOld: 1}, Failed: 1, InUse: 1, FailedFiles: []string{"f.failed"}},
		"75": {InUse: 1},
	} {
		r := &run{result: res}
		got := "0"
		if err := r.verdict(); err != nil {
			got = fmt.Sprint(sysexits.Of(err))
		}
		if got != want {
			t.Errorf("%+v: status %s, want %s", res, got, want)
		}
	}
	if got := sysexits.Of((&run{result: Result{Damage: damage}}).verdict()); got != 65 {
		t.Errorf("damage: status %d", got)
	}
	if got := sysexits.Of((&run{result: Result{Returned: 1}}).verdict()); got != 75 {
		t.Errorf("returned: status %d", got)
	}
}

// The refusal that moves a record keeps all that the command said of it.
func TestRefusal(t *testing.T) {
	text := string(record.AppendLetter(nil, &record.Record{Labels: []record.Pair{}, Line: []byte("x")}, &record.Letter{
		Reason: record.TooFarBehind, MaybeStored: true, Status: 400, Detail: "d", Stage: "push", RunID: "r", Instance: "i", Org: "o", Tenant: "7", CapturedAt: now,
	}))
	got := letterOf(t, strings.TrimSpace(text)).Refusal()
	want := record.Letter{Reason: record.TooFarBehind, MaybeStored: true, Status: 400, Detail: "d", Stage: "push", RunID: "r", Instance: "i", Org: "o", Tenant: "7", CapturedAt: now}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}
