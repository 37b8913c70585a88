// Lokitest runs the simulated Loki of package lokitest as a program, for demos
// and tests of shell scripts. It prints its URL on stdout, and ends on a signal.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sf2loki/pkg/lokitest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "lokitest: %v\n", err)
		os.Exit(64)
	}
}

// poison is a text whose entries are refused.
type poison struct {
	status int
	text   string
}

// parsePoison reads TEXT or STATUS:TEXT.
func parsePoison(s string) (poison, error) {
	before, after, ok := strings.Cut(s, ":")
	if status, err := strconv.Atoi(before); ok && err == nil && status >= 100 && status <= 599 {
		return poison{status, after}, nil
	}
	if s == "" {
		return poison{}, fmt.Errorf("a poison needs a text")
	}
	return poison{http.StatusBadRequest, s}, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("lokitest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var c lokitest.Config
	var poisons []poison
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:0", "`address` to listen on")
	fs.DurationVar(&c.Latency, "latency", 0, "`time` added to every answer")
	fs.BoolVar(&c.MultiTenant, "multi-tenant", false, "ask for X-Scope-OrgID")
	fs.BoolVar(&c.Forget, "forget", false, "keep no entries, only counters")
	plain := fs.Bool("plain", false, "no rate limits, no sharding, no service_name and detected_level")
	state := fs.String("state", "none", "`where` entries outlive the program; only none")
	fail := fs.String("fail", "", "answer the first `N:STATUS` pushes so and store nothing of them")
	token := fs.String("token-file", "", "`file` with the bearer token to ask for")
	fs.Func("poison", "refuse entries with this `[STATUS:]TEXT`: 400 each for itself, others the whole push (repeatable)", func(s string) error {
		p, err := parsePoison(s)
		poisons = append(poisons, p)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *state != "none" || fs.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", append(fs.Args(), *state)[0])
	}
	if *plain {
		c.Limits = lokitest.Plain
	}
	if *token != "" {
		b, err := os.ReadFile(*token)
		if err != nil {
			return err
		}
		c.Tokens = []string{strings.TrimSpace(string(b))}
	}
	first, status, err := parseFail(*fail)
	if err != nil {
		return err
	}
	c.Refuse = func(e lokitest.Entry) string { return refusal(poisons, e) }
	srv := lokitest.NewServer(c)
	defer srv.Close()
	srv.Script(script(poisons, int64(first), status))
	fmt.Fprintln(stdout, srv.URL)
	<-ctx.Done()
	return json.NewEncoder(stderr).Encode(srv.Stats())
}

func parseFail(s string) (n, status int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	if _, err = fmt.Sscanf(s, "%d:%d", &n, &status); err != nil || status < 100 || status > 599 {
		return 0, 0, fmt.Errorf("%q is not N:STATUS", s)
	}
	return n, status, nil
}

// refusal is the text against an entry with a poison of status 400.
func refusal(poisons []poison, e lokitest.Entry) string {
	for _, p := range poisons {
		if p.status == http.StatusBadRequest && strings.Contains(e.Line, p.text) {
			return fmt.Sprintf("entry for stream '%s' is refused: it holds %q", e.Stream, p.text)
		}
	}
	return ""
}

// script answers the first pushes, and whole pushes with a poison of another
// status.
func script(poisons []poison, first int64, status int) lokitest.Script {
	var seen atomic.Int64
	return func(_ int, req lokitest.Request) *lokitest.Answer {
		if seen.Add(1) <= first {
			return &lokitest.Answer{Status: status, Body: "as asked for"}
		}
		for _, p := range poisons {
			if p.status != http.StatusBadRequest && holds(req, p.text) {
				return &lokitest.Answer{Status: p.status, Body: "refused", Delay: time.Millisecond}
			}
		}
		return nil
	}
}

func holds(req lokitest.Request, text string) bool {
	for _, s := range req.Streams {
		for _, e := range s.Entries {
			if strings.Contains(e.Line, text) {
				return true
			}
		}
	}
	return false
}
