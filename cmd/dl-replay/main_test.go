package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/cli/clitest"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"dl-replay": func() { cli.Main("dl-replay", newRoot) },
		"sink":      func() { os.Exit(sink()) },
		"letters":   letters,
		"hold":      hold,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each program sleeps for a second under -race
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

func TestManual(t *testing.T) { clitest.Manual(t, "dl-replay", newRoot) }

// status N CMD... runs CMD and compares its exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s ended with status %d, want %s", args[1], got, args[0])
	}
}

// letters prints N dead letters, numbered from FROM, captured some time ago.
func letters() {
	n := flag.Int("n", 10, "")
	from := flag.Int("from", 1, "")
	reason := flag.String("reason", "bad_request", "")
	age := flag.Duration("age", time.Hour, "of the events")
	typ := flag.String("type", "Login", "")
	org := flag.String("org", "prod", "")
	attempts := flag.Int("attempts", 1, "")
	path := flag.String("o", "/dev/stdout", "")
	flag.Parse()
	var out []byte
	now := time.Now()
	for i := *from; i < *from+*n; i++ {
		rec := &record.Record{
			Time: now.Add(-*age).UnixNano() + int64(i), HasTime: true,
			Labels: []record.Pair{{Name: []byte("source"), Value: []byte("eventlogfile")}, {Name: []byte("event_type"), Value: []byte(*typ)}},
			Line:   fmt.Appendf(nil, `{"N":%d}`, i), Key: []byte("eventlogfile:" + *typ), Value: []byte("live"),
		}
		l := &record.Letter{Reason: record.Reason(*reason), CapturedAt: now.Add(-*age), Status: 400, Stage: "push", RunID: "r1", Org: *org}
		line := record.AppendLetter(nil, rec, l)
		for range *attempts - 1 {
			var again record.Record
			if err := record.NewReader(strings.NewReader(string(line))).Read(&again); err != nil {
				panic(err)
			}
			line = record.AppendLetter(nil, &again, l)
		}
		out = append(out, line...)
	}
	if err := os.WriteFile(*path, out, 0o600); err != nil {
		panic(err)
	}
}

// hold writes a dead letter into a spool, and keeps the file open until its
// input ends.
func hold() {
	w, err := spool.Open(spool.Config{Dir: os.Args[1], Instance: "writer"})
	if err == nil {
		var line []byte
		line, err = os.ReadFile(os.Args[2])
		if err == nil {
			err = w.Append([][]byte{line})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.WriteFile("held", nil, 0o600)
	io.Copy(io.Discard, os.Stdin)
}

// sinkFlags make the sink misbehave.
type sinkFlags struct {
	batch     int
	reject    string
	reason    string
	copies    bool // a truncated copy of each, besides
	drop      bool // refused ones are dropped, not captured
	counts    bool
	log       string
	exitAfter int // records: then exit at once, with the status
	exit      int
	killAfter int    // records acknowledged: then kill -9 the caller,
	journal   string // once this says so
	waitFor   string // a file, before the first ack
}

// sink speaks the streams as loki-push does.
func sink() int {
	var f sinkFlags
	flag.IntVar(&f.batch, "batch", 3, "")
	flag.StringVar(&f.reject, "reject", "", "")
	flag.StringVar(&f.reason, "reason", "bad_request", "")
	flag.BoolVar(&f.copies, "copies", false, "")
	flag.BoolVar(&f.drop, "drop", false, "")
	flag.BoolVar(&f.counts, "counts", true, "")
	flag.StringVar(&f.log, "log", "", "")
	flag.IntVar(&f.exitAfter, "exit-after", -1, "")
	flag.IntVar(&f.exit, "exit", 0, "")
	flag.IntVar(&f.killAfter, "kill-after", -1, "")
	flag.StringVar(&f.journal, "journal", "", "")
	flag.StringVar(&f.waitFor, "wait-for", "", "")
	flag.Parse()
	s := &sinkRun{sinkFlags: f, log: io.Discard, acks: map[string]*record.Ack{}}
	if f.log != "" {
		file, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		s.log = file
	}
	if fd := os.Getenv("LOKI_PUSH_DEAD_LETTER_FD"); fd == "3" {
		s.letters = os.NewFile(3, "letters")
	}
	fmt.Fprintln(s.log, "env", os.Getenv("LOKI_PUSH_MAX_AGE"), os.Getenv("LOKI_PUSH_TS"))
	return s.read(os.Stdin)
}

type sinkRun struct {
	sinkFlags
	log     io.Writer
	letters *os.File
	acks    map[string]*record.Ack
	keys    []string
	n       int
	acked   int
}

func (s *sinkRun) read(in io.Reader) int {
	r := record.NewReader(bufio.NewReader(in))
	for {
		var rec record.Record
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			s.flush()
			return s.exit
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 65
		}
		if rec.Run != nil {
			os.Stdout.Write(record.AppendAck(nil, &record.Ack{Run: rec.Run}))
			continue
		}
		s.take(&rec)
		if s.n == s.exitAfter {
			return s.exit
		}
	}
}

func (s *sinkRun) take(rec *record.Record) {
	s.n++
	fmt.Fprintln(s.log, string(rec.Key), string(rec.Value), string(rec.Line), labels(rec))
	key := string(rec.Key)
	a := s.acks[key]
	if a == nil {
		a = &record.Ack{Key: key}
		s.acks[key] = a
		s.keys = append(s.keys, key)
	}
	a.Value = string(rec.Value)
	refused := s.reject != "" && regexp.MustCompile(s.reject).Match(rec.Line)
	switch {
	case refused && s.drop:
		a.Dropped++
	case refused:
		a.Rejected++
		s.letter(rec, record.Reason(s.reason))
	default:
		a.Delivered++
		if s.copies {
			s.letter(rec, record.TruncatedCopy)
		}
	}
	if s.n%s.batch == 0 {
		s.flush()
	}
}

func labels(rec *record.Record) string {
	var parts []string
	for _, p := range rec.Labels {
		parts = append(parts, string(p.Name)+"="+string(p.Value))
	}
	return strings.Join(parts, ",")
}

func (s *sinkRun) letter(rec *record.Record, reason record.Reason) {
	s.letters.Write(record.AppendLetter(nil, rec, &record.Letter{
		Reason: reason, CapturedAt: time.Now(), Status: 400, Stage: "push", RunID: "again",
	}))
}

// await waits until something has happened, and for not much longer than that.
func (s *sinkRun) await(happened func() bool) {
	for end := time.Now().Add(20 * time.Second); !happened() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// flush acknowledges what came, as one batch.
func (s *sinkRun) flush() {
	s.await(func() bool {
		_, err := os.Stat(s.waitFor)
		return s.waitFor == "" || err == nil
	})
	for _, key := range s.keys {
		a := s.acks[key]
		s.acked += int(a.Delivered + a.Rejected + a.Dropped)
		if !s.counts {
			a.Delivered, a.Rejected, a.Dropped = 0, 0, 0
		}
		os.Stdout.Write(record.AppendAck(nil, a))
	}
	s.keys, s.acks = nil, map[string]*record.Ack{}
	if s.killAfter >= 0 && s.acked >= s.killAfter {
		s.await(func() bool {
			text, _ := os.ReadFile(s.journal)
			return bytes.Count(text, []byte(`"fate":"replayed"`)) >= s.killAfter
		})
		syscall.Kill(os.Getppid(), syscall.SIGKILL)
		os.Exit(1)
	}
}
