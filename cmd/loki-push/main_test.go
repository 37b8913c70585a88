package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/cli/clitest"
	"sf2loki/pkg/lokitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"loki-push": main, "records": printRecords, "gone": gone})
}

var update = flag.Bool("update", false, "write what the scripts compare")

// TestScript gives every script a simulated Loki of its own, at $LOKI. The
// commands below look into it.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			srv := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
			env.Defer(srv.Close)
			env.Setenv("LOKI", srv.URL)
			env.Values["loki"] = srv
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"stored": stored, "answers": answers, "limit": limit, "header": header, "waitfor": waitFor, "acked": acked,
		},
	})
}

func TestManual(t *testing.T) { clitest.Manual(t, "loki-push", newRoot) }

func server(ts *testscript.TestScript) *lokitest.Server { return ts.Value("loki").(*lokitest.Server) }

// stored N [REGEXP]: that many entries are stored, all that match.
func stored(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	n := 0
	var last lokitest.Entry
	for _, e := range server(ts).Entries("fake") {
		text := fmt.Sprintf("%s %d %v %s", e.Stream, e.Nanos, e.Metadata, e.Line)
		if len(args) < 2 || regexp.MustCompile(args[1]).MatchString(text) {
			n++
		}
		last = e
	}
	if (n == want) == neg {
		ts.Fatalf("%d entries stored, the last one %+v", n, last)
	}
}

// answers STATUS BODY [N]: the server answers so, N times or for ever. Status
// 0 resets the connection, -1 hangs.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		server(ts).Script(nil)
		return
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	left := -1
	if len(args) > 2 {
		left, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	var mu sync.Mutex
	server(ts).Script(func(int, lokitest.Request) *lokitest.Answer {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return nil
		}
		left--
		switch status {
		case 0:
			return &lokitest.Answer{Reset: true}
		case -1:
			return &lokitest.Answer{Hang: true}
		}
		return &lokitest.Answer{Status: status, Body: args[1]}
	})
}

// limit NAME VALUE: changes a limit of the server.
func limit(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	server(ts).SetLimits("fake", func(l *lokitest.Limits) {
		switch args[0] {
		case "line":
			l.MaxLineSize = n
		case "metadata":
			l.AllowStructuredMetadata = n != 0
		case "shards":
			l.ShardStreams = n != 0
		default:
			ts.Fatalf("unknown limit %s", args[0])
		}
	})
}

// header NAME REGEXP: the last request had that header.
func header(ts *testscript.TestScript, _ bool, args []string) {
	requests := server(ts).Requests()
	if len(requests) == 0 {
		ts.Fatalf("no request came")
	}
	if got := requests[len(requests)-1].Header.Get(args[0]); !regexp.MustCompile(args[1]).MatchString(got) {
		ts.Fatalf("%s is %q", args[0], got)
	}
}

// waitfor N: waits until the server has had that many requests.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if server(ts).Stats().Requests >= want {
			return
		}
	}
	ts.Fatalf("%d requests came", server(ts).Stats().Requests)
}

// acked FILE KEY VALUE: the last token acknowledged for the key; "" for none.
func acked(ts *testscript.TestScript, _ bool, args []string) {
	last := ""
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var a struct {
			Key   string `json:"checkpoint_key"`
			Value string `json:"checkpoint_value"`
		}
		ts.Check(json.Unmarshal([]byte(line), &a))
		if a.Key == args[1] {
			last = a.Value
		}
	}
	if last != args[2] {
		ts.Fatalf("the last token of %s is %q", args[1], last)
	}
}

// printRecords prints records of the present: one for each argument, which is
// its line. NAME=VALUE before a line sets something for those that follow.
func printRecords() {
	key, eventType, age, pause := "k", "Login", time.Minute, time.Duration(0)
	for i, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "key":
			key = value
		case "type":
			eventType = value
		case "age":
			age, _ = time.ParseDuration(value)
		case "pause":
			pause, _ = time.ParseDuration(value)
			time.Sleep(pause)
		case "raw":
			fmt.Print(value)
		case "day": // so many, spread over the last day, in time order
			n, _ := strconv.Atoi(value)
			for k := range n {
				printRecord(k, key, eventType, fmt.Sprint("row ", k), 24*time.Hour-time.Duration(k)*24*time.Hour/time.Duration(n))
			}
		case "run":
			fmt.Printf(`{"checkpoint_only":true,"run":{"program":"sf-pull","run_id":"the-first","at":"2026-07-01T00:00:00Z"%s}}`+"\n", value)
		case "long":
			n, _ := strconv.Atoi(value)
			printRecord(i, key, eventType, strings.Repeat("x", n), age)
		default:
			printRecord(i, key, eventType, arg, age)
		}
	}
}

func printRecord(i int, key, eventType, line string, age time.Duration) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{
		"ts":     time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000000000Z"),
		"labels": map[string]string{"source": "eventlogfile", "event_type": eventType}, "structured_metadata": map[string]string{"level": "info"},
		"line": line, "checkpoint_key": key, "checkpoint_value": fmt.Sprint(i), "origin": fmt.Sprint("0AT:", i),
	})
	os.Stdout.Write(b.Bytes())
}

// gone reads one line and goes away.
func gone() {
	var b [1]byte
	for {
		if _, err := os.Stdin.Read(b[:]); err != nil || b[0] == '\n' {
			return
		}
	}
}
