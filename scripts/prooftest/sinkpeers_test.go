package prooftest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// The ceilings of loki-push(1), ckpt(1) and dl-replay(1), in MiB.
const (
	pushCeiling   = 64 // ordinary lines, whatever the server does
	commitCeiling = 64 // ordinary acknowledgements, whatever the store does
	storeCeiling  = 200
	replayCeiling = 48
	runCeiling    = 64 // dl-replay run, whatever its command does, with few letters
)

// entries are records of ordinary lines, in ten streams.
func entries(w io.Writer, n int64) {
	now := time.Now().UnixNano()
	line := strings.Repeat("x", 500)
	var page []byte
	for i := int64(0); n > 0; n -= int64(len(page)) {
		page = page[:0]
		for range 100 {
			page = fmt.Appendf(page, `{"ts_unix_nano":%d,"labels":{"source":"s","event_type":"t%d"},"line":"%d %s","checkpoint_key":"file:x","checkpoint_value":"%d"}`+"\n", now+i, i%10, i, line, i)
			i++
		}
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

// acks are acknowledgements of ten keys.
func acks(w io.Writer, n int64) {
	var page []byte
	for i := int64(0); n > 0; n -= int64(len(page)) {
		page = page[:0]
		for range 100 {
			page = fmt.Appendf(page, `{"checkpoint_key":"file:%d","checkpoint_value":"%d","delivered":1000}`+"\n", i%10, i)
			i++
		}
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

// keys are acknowledgements, each of another key.
func keys(w io.Writer, n int64) {
	buffered := bufio.NewWriter(w)
	for i := 0; n > 0; i++ {
		wrote, err := fmt.Fprintf(buffered, `{"checkpoint_key":"file:/var/spool/salesforce/%d.csv","checkpoint_value":"2026-07-01T00:00:00Z","delivered":1}`+"\n", i)
		if err != nil {
			return
		}
		n -= int64(wrote)
	}
	_ = buffered.Flush()
}

// tinyKeys is a document of them, without end.
func tinyKeys(w io.Writer, n int64) {
	buffered := bufio.NewWriter(w)
	wrote, err := fmt.Fprint(buffered, `{"":""`)
	for i := 0; n > 0 && err == nil; i++ {
		n -= int64(wrote)
		wrote, err = fmt.Fprintf(buffered, `,"%x":""`, i)
	}
	_, _ = buffered.WriteString("}")
	_ = buffered.Flush()
}

// manyKeys is one of less than 16 MiB, but with ten times as many keys as one has.
func manyKeys(w io.Writer, _ int64) { tinyKeys(w, 12<<20) }

// fullDocument is as large as one may be.
func fullDocument(w io.Writer, _ int64) {
	comma := "{"
	for i := range 50_000 {
		key := fmt.Sprintf("org=production:window=2026-07-01/%05d:eventlogfile:ApexExecution", i)
		fmt.Fprintf(w, `%s"%s":"2026-07-01T00:00:00.000+0000 0AT%015d %s","__ts__:%s":"2026-07-01T00:00:00.000000000Z"`, comma, key, i, strings.Repeat("x", 65), key)
		comma = ","
	}
	_, _ = io.WriteString(w, "}")
}

// letters are dead letters.
func letters(w io.Writer, n int64) {
	line := strings.Repeat("x", 500)
	var page []byte
	for i := int64(0); n > 0; n -= int64(len(page)) {
		page = page[:0]
		for range 100 {
			page = fmt.Appendf(page, `{"ts":"2026-07-01T00:00:00Z","labels":{"source":"s","event_type":"t%d"},"line":"%d %s","reason":"too_old","captured_at":"2026-07-30T12:00:00Z","dead_letter":{"v":1,"id":"%016x"}}`+"\n", i%10, i, line, i)
			i++
		}
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

// fewLetters are as many as one file of a spool has.
func fewLetters(w io.Writer, n int64) { letters(w, min(n, someLetters)) }

const someLetters = 16 << 20

func endless(text string) func(io.Writer, int64) {
	return func(w io.Writer, n int64) { flood(w, text, n) }
}

const (
	pushing  = "loki-push --url $URL --stream-bytes-per-second 0 --dead-letter-fd -1 --grace 1s "
	giving   = pushing + "--timeout 2s --give-up 3s"
	running  = "dl-replay run --force --grace 1s letters.ndjson -- "
	commited = "ckpt commit s3://bucket/state.json?region=us-east-1&endpoint=$URL --retry-for 1s --grace 1s"
)

var sinkPeers = []peer{
	{name: "acknowledgements that nobody reads", command: pushing, ceiling: pushCeiling, unread: true, input: entries, answers: stored(-1)},
	{name: "entries", command: pushing, ceiling: pushCeiling, input: entries, answers: stored(0)},
	{name: "acks into a file", command: "ckpt commit state.json --grace 1s", ceiling: commitCeiling, input: acks},
	{name: "acks into a file, and a ledger", command: "ckpt commit state.json --ledger ledger --grace 1s", ceiling: commitCeiling, input: acks},
	{name: "acks without a line feed", command: "ckpt commit state.json", ceiling: storeCeiling, input: endless(`{"checkpoint_key":"`)},
	{name: "one long ack", command: "ckpt commit state.json", ceiling: storeCeiling, input: func(w io.Writer, n int64) {
		_, _ = io.WriteString(w, `{"checkpoint_key":"`)
		flood(w, "x", n)
	}},
	{name: "nested acks", command: "ckpt commit state.json", ceiling: storeCeiling, input: endless(`{"a":`)},
	{name: "keys without end", command: "ckpt commit state.json", ceiling: storeCeiling, input: keys, says: "no document has more"},
	{name: "more keys than a full document takes", command: "ckpt commit letters.ndjson", ceiling: storeCeiling, input: keys, file: fullDocument, says: "no document has more"},
	{name: "a full document", command: "ckpt list letters.ndjson", ceiling: storeCeiling, file: fullDocument},
	{name: "a document of keys without end", command: "ckpt commit letters.ndjson", ceiling: storeCeiling, file: tinyKeys, says: "no checkpoint document"},
	{name: "a document of too many keys", command: "ckpt list letters.ndjson", ceiling: storeCeiling, file: manyKeys, says: "more than 100000 keys"},
	{name: "an imported document without end", command: "ckpt import state.json", ceiling: storeCeiling, input: tinyKeys, says: "no document has more"},
	{name: "an imported document of too many keys", command: "ckpt import state.json", ceiling: storeCeiling, input: manyKeys, says: "more than 100000 keys"},
	{name: "positions without end", command: "sf-pull elf --file none.csv --resume -", ceiling: storeCeiling, input: tinyKeys, says: "no checkpoint document"},
	{name: "positions of too many keys", command: "sf-pull elf --file none.csv --resume -", ceiling: storeCeiling, input: manyKeys, says: "more than 100000 keys"},
	{name: "a lease of keys without end", command: "ckpt lease letters.ndjson --fence state.json --wait 0 -- true", ceiling: storeCeiling, file: tinyKeys, says: "not a lease"},
	{name: "letters", command: "dl-replay list letters.ndjson", ceiling: replayCeiling, file: letters},
	{name: "counts of letters", command: "dl-replay stats letters.ndjson", ceiling: replayCeiling, file: letters},
	{name: "letters, nobody reads", command: "dl-replay cat letters.ndjson", ceiling: replayCeiling, unread: true, file: letters},
	{name: "a command that does not read", command: running + "sleep 1000", ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "a command that does not end", command: running + "sh deaf", ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "a command that says nothing", command: running + "cat", ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "answers that are none, without end", command: running + "yes {}", ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "an answer without end", command: running + "cat /dev/zero", ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "answers to what was not sent", command: running + `yes {"checkpoint_key":"x","checkpoint_value":"1","delivered":1}`, ceiling: runCeiling, patient: true, file: fewLetters},
	{name: "one long letter", command: "dl-replay list letters.ndjson", ceiling: storeCeiling, file: endless("x")},
	{name: "nested letters", command: "dl-replay list letters.ndjson", ceiling: storeCeiling, file: endless(`{"a":[`)},
}

// stored is a Loki that stores everything.
func stored(times int64) *answers {
	return &answers{times: times, write: func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusNoContent) }}
}

// Whatever Loki or a store answers, whatever comes in, and whether or not
// anybody reads what goes out, the memory stays below what the manual says.
func TestSinkPeers(t *testing.T) {
	var all []peer
	for name, write := range ills {
		for _, p := range []peer{
			{name: "Loki, " + name, command: giving, ceiling: pushCeiling, input: entries},
			{name: "store, " + name, command: commited, ceiling: storeCeiling, input: acks},
		} {
			p.answers = &answers{write: write}
			all = append(all, p)
		}
	}
	for _, p := range append(all, sinkPeers...) {
		if hard := strings.HasPrefix(p.name, "store, ") && hangs[strings.TrimPrefix(p.name, "store, ")]; hard && os.Getenv("PROOFTEST_ALL") == "" {
			continue // each takes as long as a store is waited for, 15 s
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := testbed.New(t)
			front, enough := badly(t, p.answers, http.NotFoundHandler())
			srv := httptest.NewServer(front)
			t.Cleanup(srv.Close)
			if p.file != nil {
				spoolFile(t, b, p.file)
			}
			p.command = strings.ReplaceAll(p.command, "$URL", srv.URL)
			b.Set("AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
			if p.unread || p.patient {
				enough = after(t, patience(t))
			}
			b.Write("deaf", "trap '' TERM INT HUP\nexec sleep 1000\n")
			p.meet(t, b, enough)
			if p.patient {
				left, err := os.Stat(b.Path("letters.ndjson"))
				if err != nil || left.Size() < min(offer(t), someLetters) {
					t.Errorf("nobody said that letters arrived, and they are not there any more: %v", err)
				}
			}
		})
	}
}

// spoolFile fills a file of letters. They are on disk in any case, so it is not
// larger than it has to be.
func spoolFile(t *testing.T, b *testbed.Bed, write func(io.Writer, int64)) {
	t.Helper()
	f, err := os.OpenFile(b.Path("letters.ndjson"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	write(f, min(offer(t), 256<<20))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// after is a channel that is closed when some time has gone by.
func after(t *testing.T, d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(c) })
	t.Cleanup(func() { timer.Stop() })
	return c
}
