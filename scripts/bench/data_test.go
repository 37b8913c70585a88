package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
)

// data are files that are made once and used by all that ask for the same.
var data struct {
	sync.Mutex
	made map[string]bool
}

// file returns the path of a file that write makes.
func file(tb testing.TB, name string, write func(w *bufio.Writer)) string {
	tb.Helper()
	data.Lock()
	defer data.Unlock()
	path := filepath.Join(dir, name)
	if data.made[name] {
		return path
	}
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	write(w)
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	if data.made == nil {
		data.made = map[string]bool{}
	}
	data.made[name] = true
	return path
}

func size(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

// begin is when the first event of all data was.
var begin = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

const hours = 3 * time.Hour // so long all data lasts

// csvFile is an event log file of some rows over three hours, in order or, as
// most are, with neighbours that are not.
func csvFile(tb testing.TB, rows int, ordered bool) string {
	tb.Helper()
	return file(tb, fmt.Sprintf("rows-%d-%v.csv", rows, ordered), func(w *bufio.Writer) {
		const most = 2000
		hour := sftest.Hour{Type: "RestApi", Start: begin, Rows: most, Seed: 1}
		samples := bytes.SplitAfter(hour.CSV(), []byte("\n"))
		w.Write(samples[0])
		samples = samples[1:]
		random := rand.New(rand.NewPCG(1, 2))
		step := int(hours) / rows
		for i := range rows {
			line, was := samples[i%most], hour.When(i%most)
			t := begin.Add(time.Duration(i * step))
			if !ordered {
				t = t.Add(time.Duration(random.IntN(3 * step)))
			}
			put(line, was.Format("20060102150405.000"), t.Format("20060102150405.000"))
			put(line, was.Format("2006-01-02T15:04:05.000Z"), t.Format("2006-01-02T15:04:05.000Z"))
			w.Write(line)
			put(line, t.Format("20060102150405.000"), was.Format("20060102150405.000"))
			put(line, t.Format("2006-01-02T15:04:05.000Z"), was.Format("2006-01-02T15:04:05.000Z"))
		}
	})
}

// put puts one text in the place of another that is as long.
func put(line []byte, old, text string) {
	at := bytes.Index(line, []byte(old))
	copy(line[at:], text)
}

// recordKind is records that are all of one kind.
type recordKind struct {
	entries  int
	line     int     // bytes
	streams  int     // besides the hours
	metadata int     // pairs
	poison   float64 // share of entries that are too old by a year
}

func (k recordKind) String() string {
	return fmt.Sprintf("%d-%dB-%ds-%dm-%gp", k.entries, k.line, k.streams, k.metadata, k.poison)
}

func recordFile(tb testing.TB, k recordKind) string {
	tb.Helper()
	return file(tb, k.String()+".ndjson", func(w *bufio.Writer) {
		rec := record.Record{HasTime: true, Key: []byte("eventlogfile:Login")}
		labels := make([][]record.Pair, k.streams)
		for i := range labels {
			labels[i] = pairs("source", "eventlogfile", "event_type", fmt.Sprintf("Login%d", i), "job", "sf2loki", "sf_org_id", "00D000000000001AAA")
		}
		for i := range k.metadata {
			rec.Metadata = append(rec.Metadata, pairs(fmt.Sprintf("field_%d", i), fmt.Sprintf("value %d of it", i*i))...)
		}
		pad := strings.Repeat(`Mozilla/5.0 (X11; Linux) ","FIELD":"`, 200)
		random := rand.New(rand.NewPCG(1, 2))
		step := int64(hours) / int64(k.entries)
		var out, line []byte
		for i := range k.entries {
			line = fmt.Appendf(line[:0], `{"EVENT_TYPE":"Login","USER_ID":"005%015d","CLIENT_IP":"10.%d.%d.%d","URI":"/services/%x","PAD":"`,
				i%5000, i%256, i/256%256, i%97, uint64(i)*0x9E3779B97F4A7C15)
			line = append(line, pad[:max(0, k.line-len(line)-2)]...)
			rec.Line = append(line, `"}`...)
			rec.Time = begin.UnixNano() + int64(i)*step
			if random.Float64() < k.poison {
				rec.Time -= int64(365 * 24 * time.Hour)
			}
			rec.Labels = labels[i%k.streams]
			rec.Value = fmt.Appendf(rec.Value[:0],
				`{"v":1,"org":"00D000000000001AAA","created":"2026-07-01T10:00:00.000Z","id":"0AT000000000001AAA","len":2692,"order":1,"rows":%d}`, i)
			rec.Origin = fmt.Appendf(rec.Origin[:0], "0AT000000000001AAA:%d", i)
			out = record.AppendRecord(out[:0], &rec)
			w.Write(out)
		}
	})
}

func pairs(texts ...string) (list []record.Pair) {
	for i := 0; i < len(texts); i += 2 {
		list = append(list, record.Pair{Name: []byte(texts[i]), Value: []byte(texts[i+1])})
	}
	return list
}
