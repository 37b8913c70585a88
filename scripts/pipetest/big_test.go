package pipetest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// digest is what can be compared of very many entries: their number, and the
// sum of their hashes, which does not depend on their order.
type digest struct {
	entries int64
	bytes   int64 // of lines
	sum     [4]uint64
}

func (d *digest) add(e entry) {
	d.entries++
	d.bytes += int64(len(e.line))
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n%s\n", e.nanos, e.labels, e.metadata)
	io.WriteString(h, e.line)
	hash := h.Sum(nil)
	for i := range d.sum {
		d.sum[i] += binary.LittleEndian.Uint64(hash[8*i:])
	}
}

// generate writes a file of about a size, row by row in the order of time, and
// returns what it should become. Each of its pieces is a day of rows.
func generate(t *testing.T, path string, size int64) (want digest) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	written := int64(0)
	for n := 0; written < size; n++ {
		data := sftest.Hour{
			Type: "API", Start: daysAgo(2).Add(time.Duration(n) * time.Hour), Rows: 2000 + int(size>>14), Seed: uint64(n), Awkward: 40,
		}.CSV()
		for e, count := range expected(t, data, nil) {
			if count != 1 {
				t.Fatalf("made twice: %v", e)
			}
			want.add(e)
		}
		if n > 0 {
			_, data, _ = bytes.Cut(data, []byte("\n")) // the header again
		}
		written += int64(len(data))
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return want
}

// A large file arrives whole. PIPETEST_FILE_MB is its size.
func TestLargeFile(t *testing.T) {
	size := int64(number(t, "PIPETEST_FILE_MB", 20)) << 20
	b := newBench(t)
	b.Limit = 10 * time.Minute
	want := generate(t, b.Path("large.csv"), size)
	b.set("LOKI_PUSH_MAX_AGE=0", "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0")

	t.Run("lokitest", func(t *testing.T) {
		srv := loki(t, lokitest.Config{Limits: anyAge})
		b.set("LOKI="+srv.URL).measured(t, "", &want)
		var got digest
		for e := range held(srv) {
			got.add(e)
		}
		if got != want || srv.Stats().Received != int(want.entries) {
			t.Errorf("%d entries of %d bytes, %d received; want %d of %d", got.entries, got.bytes, srv.Stats().Received, want.entries, want.bytes)
		}
	})
	t.Run("VictoriaLogs", func(t *testing.T) {
		vl := newVLTenant(t)
		b.set("LOKI="+vl.URL+"/insert/loki/api/v1/push").measured(t, "--tenant "+vl.ID, &want)
		var got digest
		for e, n := range vl.held(t) {
			for range n {
				got.add(e)
			}
		}
		if got != want {
			t.Errorf("%d entries of %d bytes, want %d of %d", got.entries, got.bytes, want.entries, want.bytes)
		}
	})
}

// measured pushes the large file, and looks at the programs' own accounts and at
// their memory.
func (b *bench) measured(t *testing.T, to string, want *digest) {
	t.Helper()
	b.set("PULL=--file large.csv --report pull.report", "PUSH="+to+" --report push.report")
	run := b.start("rm -f state.json *.pid" + killable)
	memory := run.memory()
	r := run.Wait()
	if r.Status != 0 {
		t.Fatalf("%v", r)
	}
	info, err := os.Stat(b.Path("large.csv"))
	if err != nil {
		t.Fatal(err)
	}
	mb := float64(info.Size()) / (1 << 20)
	t.Logf("%.0f MB, %d rows, in %v: %.1f MB/s, %v", mb, want.entries, r.Took.Round(time.Millisecond), mb/r.Took.Seconds(), strings.Join(memory, ", "))
	for _, name := range []string{"pull.report", "push.report"} {
		for line := range strings.Lines(b.Read(name)) {
			var account struct {
				Read     int64
				Balanced bool
			}
			if err := json.Unmarshal([]byte(line), &account); err != nil || account.Read != want.entries || !account.Balanced {
				t.Errorf("%s: %s, %v", name, line, err)
			}
		}
	}
	var position struct{ Rows int64 }
	if err := json.Unmarshal([]byte(b.positions()["file:large.csv"]), &position); err != nil || position.Rows != want.entries {
		t.Errorf("position %s: %v", b.positions()["file:large.csv"], err)
	}
}

// memory tells, at the end, how much each program has had.
func (r *running) memory() []string {
	most := make([]int64, len(stages))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for i, name := range stages {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid(name)))
			_, after, found := strings.Cut(string(data), "VmHWM:")
			var kilobytes int64
			if _, scanned := fmt.Sscan(after, &kilobytes); err == nil && found && scanned == nil {
				most[i] = max(most[i], kilobytes)
			}
		}
		select {
		case <-tick.C:
		case <-r.Done:
			said := make([]string, len(stages))
			for i, name := range stages {
				said[i] = fmt.Sprintf("%s %d MiB", name, most[i]>>10)
				if most[i] > mostMemory[i] {
					r.b.T.Errorf("%s had %d MiB of memory", name, most[i]>>10)
				}
			}
			return said
		}
	}
}

// mostMemory is what each stage may take with its default flags, in KiB: 64 MiB
// of sf-pull's own, and what loki-push's garbage collector adds to 24 MiB of
// entries.
var mostMemory = []int64{64 << 10, 96 << 10, 48 << 10}
