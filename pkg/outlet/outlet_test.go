package outlet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

func TestHandOn(t *testing.T) {
	full := errors.New("full")
	for _, tt := range []struct {
		name  string
		block []byte
		err   error
		kept  bool
	}{
		{name: "nothing", block: make([]byte, 0, 10), kept: true},
		{name: "a block", block: []byte("x\n"), kept: true},
		{name: "one that has grown", block: make([]byte, 1, 8*BlockSize+1)},
		{name: "one that failed", block: []byte("x\n"), err: full},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			o := Output{Records: func([]byte) error { calls++; return tt.err }}
			rest, err := o.HandOn(tt.block)
			if !errors.Is(err, tt.err) || len(rest) != 0 || (cap(rest) > 0) != tt.kept {
				t.Errorf("%d of %d bytes, %v", len(rest), cap(rest), err)
			}
			if want := min(1, len(tt.block)); calls != want {
				t.Errorf("%d writes, want %d", calls, want)
			}
		})
	}
}

func TestAppendLetter(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	apart := ""
	for _, tt := range []struct {
		name   string
		letter func([]byte) error
		in     *string // nil: the block
		exit   sysexits.Code
	}{
		{name: "among the records"},
		{name: "apart", letter: func(line []byte) error { apart = string(line); return nil }, in: &apart},
		{name: "nowhere", letter: func([]byte) error { return errors.New("full") }, exit: sysexits.IOErr},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Output{Letter: tt.letter, RunID: "run", Instance: "here", Org: "prod", Now: func() time.Time { return at }}
			stats := tally.New()
			rec := record.Record{Key: []byte("k")}
			if err := SetGap(&rec, map[string]string{"what": "x"}); err != nil {
				t.Fatal(err)
			}
			block, err := o.AppendLetter([]byte("before\n"), stats, &rec, &record.Letter{Reason: record.SourceGap, Detail: "why"})
			if sysexits.Of(err) != tt.exit {
				t.Fatal(err)
			}
			got, ok := strings.CutPrefix(string(block), "before\n")
			if !ok || (got != "") != (tt.in == nil && err == nil) {
				t.Errorf("the block is %q", block)
			}
			totals := stats.Totals()
			if err != nil {
				if totals.LetterErrors != 1 || len(totals.Letters) != 0 {
					t.Errorf("%+v", totals)
				}
				return
			}
			if tt.in != nil {
				got = *tt.in
			}
			for _, want := range []string{`"gap":{"what":"x"}`, `"reason":"source_gap"`, `"stage":"pull"`, `"run_id":"run"`, `"instance":"here"`, `"org":"prod"`,
				`"captured_at":"2026-07-01T10:00:00.000000000Z"`} {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
			if l := totals.Letters["source_gap"]; l != (tally.Letters{Entries: 1, Bytes: int64(len(got))}) {
				t.Errorf("%+v, want 1 of %d bytes", l, len(got))
			}
		})
	}
}
