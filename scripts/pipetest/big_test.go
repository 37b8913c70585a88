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
	"strconv"
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
	b.limit = 10 * time.Minute
	want := generate(t, b.path("large.csv"), size)
	b.set("LOKI_PUSH_MAX_AGE=0", "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0")
	mb := float64(size) / (1 << 20)

	t.Run("lokitest", func(t *testing.T) {
		srv := loki(t, lokitest.Config{Limits: anyAge})
		took := b.measured(t, `--url `+srv.URL)
		t.Logf("%.0f MB, %d rows, in %v: %.1f MB/s", mb, want.entries, took, mb/took.Seconds())
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
		took := b.measured(t, `--url `+vl.URL+`/insert/loki/api/v1/push --tenant `+vl.ID)
		t.Logf("%.0f MB, %d rows, in %v: %.1f MB/s", mb, want.entries, took, mb/took.Seconds())
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

// measured pushes the large file and looks at the programs' own account.
func (b *bench) measured(t *testing.T, to string) time.Duration {
	t.Helper()
	r := b.ok(`rm -f state.json; sf-pull elf --file large.csv --report pull.report | loki-push ` + to + ` --report push.report | ckpt commit state.json`)
	var position struct{ Rows int64 }
	doc := map[string]string{}
	if err := json.Unmarshal([]byte(b.read("state.json")), &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(doc["file:large.csv"]), &position); err != nil || position.Rows == 0 {
		t.Errorf("position %s: %v", strconv.Quote(doc["file:large.csv"]), err)
	}
	return r.took.Round(time.Millisecond)
}
