package spool

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

func verifyAll(t *testing.T, dir string) (faults []string, records int64) {
	t.Helper()
	set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, f := range set.Files {
		n, err := f.Verify(func(f Fault) error {
			faults = append(faults, fmt.Sprintf("%s:%d:%s", strings.TrimPrefix(filepath.Base(f.File), "a-20261130-"), f.Line, f.Kind))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		records += n
	}
	return faults, records
}

func TestVerify(t *testing.T) {
	const name = "a-20261130-000001.ndjson"
	good := sample(1, record.TooOld)
	edited := bytes.Replace(sample(2, record.TooOld), []byte(`N\":2`), []byte(`N\":9`), 1)
	strange := bytes.Replace(sample(3, record.TooOld), []byte(`"reason":"too_old","truncated"`), []byte(`"reason":"bored","truncated"`), 1)
	const wrong = `{"labels":{"a":"b"},"line":7,"reason":"too_old"}` + "\n"
	entryOf := func(line int, id, fate string) []byte {
		e := entry{line: int64(line), id: ParseID([]byte(id)), fate: Status(fate), at: testTime, run: "r"}
		if e.fate == Failed {
			e.end = 9
		}
		return e.append(nil)
	}
	var l Letter
	if _, err := l.parse(good); err != nil {
		t.Fatal(err)
	}
	id := l.ID().String()
	tests := []struct {
		name, file string
		data       [][]byte
		journal    [][]byte
		want       []string
	}{
		{"nothing wrong", name, [][]byte{good}, nil, nil},
		{"an edit", name, [][]byte{good, edited}, nil, []string{"000001.ndjson:2:edited"}},
		{"a strange reason", name, [][]byte{strange}, nil, []string{"000001.ndjson:1:reason"}},
		{"a place without a record", name, [][]byte{[]byte("?\n"), good}, nil, []string{"000001.ndjson:1:damage"}},
		{"a torn end", name, [][]byte{good, good[:50]}, nil, []string{"000001.ndjson:2:torn"}},
		{"no record of ours", name, [][]byte{[]byte(wrong)}, nil, []string{"000001.ndjson:1:record"}},
		{"an entry for nothing", name, [][]byte{good}, [][]byte{entryOf(3, id, "replayed"), []byte("?\n")},
			[]string{"000001.ndjson:0:journal", "000001.ndjson:0:journal"}},
		{"a move to nowhere", name, [][]byte{good}, [][]byte{entryOf(1, id, "failed")}, []string{"000001.ndjson:0:moved"}},
		{"a name that is wrong", name + ".replayed", [][]byte{good}, [][]byte{entryOf(1, id, "new")}, []string{"000001.ndjson.replayed:0:name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, filepath.Join(dir, tt.file), tt.data...)
			if tt.journal != nil {
				mustWrite(t, filepath.Join(dir, name+".journal"), tt.journal...)
			}
			got, _ := verifyAll(t, dir)
			if !slices.Equal(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
			if err := os.Chmod(filepath.Join(dir, tt.file), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, _ := verifyAll(t, dir); len(got) != len(tt.want)+1 || !strings.HasSuffix(got[0], ":mode") {
				t.Errorf("open to others: faults %q", got)
			}
		})
	}
}

// Nothing is wrong with what writers and replays leave.
func TestVerifyOfARealSpool(t *testing.T) {
	dir := t.TempDir()
	w := openWriter(t, Config{Dir: dir, Instance: "a", FileBytes: 2000, Now: func() time.Time { return testTime }})
	for i := range 10 {
		mustAppend(t, w, sample(i, record.BadRequest))
	}
	w.Close()
	log := slog.New(slog.DiscardHandler)
	set, err := Find([]string{dir}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	c, err := TakeGroup(set.Groups()[0], "r", time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	items, err := c.Index(is(New), func(d *Damage) { t.Error(d) })
	if err != nil || len(items) < 2 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if err := c.Fail(&items[0], &record.Letter{Reason: record.TooOld, CapturedAt: testTime}); err != nil {
		t.Fatal(err)
	}
	for i := range items[1:] {
		if err := c.Replayed(&items[1+i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(false); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if got, n := verifyAll(t, dir); len(got) != 0 || n != 11 {
		t.Errorf("%d records, faults %q", n, got)
	}
}
