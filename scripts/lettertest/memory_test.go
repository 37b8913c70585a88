package lettertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// measure runs a program and leaves what it has used in the file used: the peak of
// its memory in KiB, and seconds of processors. A child's peak begins with that of
// the process that it was forked from, so a small one has to measure.
const measure = `import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss, used.ru_utime + used.ru_stime, file=open("used", "w"))
sys.exit(status)
`

// used is what the last program that was measured has used.
func (b *bench) used() (peak int, processor float64) {
	b.T.Helper()
	if _, err := fmt.Sscan(b.Read("used"), &peak, &processor); err != nil {
		b.T.Fatal(err)
	}
	return peak, processor
}

// hostile is something that must not fill the memory of loki-push.
type hostile struct {
	name   string
	input  func(w io.Writer, n int)
	reply  http.HandlerFunc // nil: all is stored
	raw    func(net.Conn)   // instead of reply: what is written to a connection
	flags  string
	most   int // MiB
	status int
}

// entry is a record whose labels and other fields are given.
func entry(w io.Writer, n int, labels, others string) {
	fmt.Fprintf(w, `{"ts_unix_nano":%d,"labels":{"source":"s"%s},"line":"%d"%s}`+"\n", epoch.UnixNano()+int64(n), labels, n, others)
}

// many writes the same text again and again, a part of one record.
func many(w io.Writer, n int, part func(i int) string) {
	for i := range n {
		_, _ = io.WriteString(w, part(i))
	}
}

var hostiles = []hostile{
	{name: "one line", most: 160, status: 65, input: func(w io.Writer, n int) {
		_, _ = io.WriteString(w, `{"line":"`)
		part := long(1000)
		many(w, n, func(int) string { return part })
	}},
	{name: "labels", most: 220, input: func(w io.Writer, n int) {
		_, _ = io.WriteString(w, `{"line":"x","ts_unix_nano":`+fmt.Sprint(epoch.UnixNano())+`,"labels":{"source":"s"`)
		many(w, n, func(i int) string { return fmt.Sprintf(`,"n%d":"v"`, i) })
		_, _ = io.WriteString(w, "}}\n")
	}},
	{name: "keys", most: 120, input: func(w io.Writer, n int) {
		for i := range n {
			entry(w, i, "", fmt.Sprintf(`,"checkpoint_key":"key %d","checkpoint_value":"v"`, i))
		}
	}},
	{name: "long keys", most: 160, input: func(w io.Writer, n int) {
		for i := range n / 1000 {
			entry(w, i, "", fmt.Sprintf(`,"checkpoint_key":"%d%s","checkpoint_value":"v"`, i, long(1<<20)))
		}
	}},
	{name: "tokens", most: 160, input: func(w io.Writer, n int) {
		for i := range n / 50 {
			entry(w, i, "", fmt.Sprintf(`,"checkpoint_key":"%d%s","checkpoint_value":"%s"`, i, long(4000), long(60_000)))
		}
	}},
	{name: "runs", most: 120, status: 75, input: func(w io.Writer, n int) {
		for i := range n {
			fmt.Fprintf(w, `{"checkpoint_only":true,"run":{"program":"p","run_id":"%d"}}`+"\n", i)
		}
	}},
	{name: "long run ids", most: 160, input: func(w io.Writer, n int) {
		for i := range n / 1000 {
			fmt.Fprintf(w, `{"checkpoint_only":true,"run":{"program":"p","run_id":"%d%s"}}`+"\n", i, long(1<<20))
		}
	}},
	{name: "streams", most: 160, flags: "--max-new-streams 0", input: func(w io.Writer, n int) {
		for i := range n / 10 {
			entry(w, i, fmt.Sprintf(`,"event_type":"%d"`, i), "")
		}
	}},
	{name: "large streams", most: 200, flags: "--max-new-streams 0 --max-label-value-bytes 0", input: func(w io.Writer, n int) {
		for i := range n / 50 {
			entry(w, i, fmt.Sprintf(`,"event_type":"%d%s"`, i, long(60_000)), "")
		}
	}},
	{name: "metadata", most: 220, flags: "--max-metadata 0 --max-metadata-bytes 0", input: func(w io.Writer, n int) {
		_, _ = io.WriteString(w, `{"labels":{"source":"s"},"line":"x","ts_unix_nano":`+fmt.Sprint(epoch.UnixNano())+`,"structured_metadata":{"a":"b"`)
		many(w, n, func(i int) string { return fmt.Sprintf(`,"n%d":"v"`, i) })
		_, _ = io.WriteString(w, "}}\n")
	}},
	{name: "long letters", most: 260, flags: "--max-line-bytes 0 --max-age 1h", input: func(w io.Writer, n int) {
		for i := range n / 20_000 {
			fmt.Fprintf(w, `{"ts":"2020-01-01T00:00:00Z","labels":{"source":"s"},"line":"%d%s"}`+"\n", i, long(30<<20))
		}
	}},
	{name: "compressed reply", most: 100, status: 78, flags: "--give-up 1s", input: oneEntry, reply: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusBadRequest)
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 200 {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		_ = z.Close()
	}},
	{name: "endless reply", most: 100, status: 78, flags: "--give-up 1s --timeout 5s", input: oneEntry, reply: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for page := bytes.Repeat([]byte("x"), 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}},
	{name: "endless header", most: 100, status: 69, flags: "--give-up 1s --timeout 5s", input: oneEntry, raw: func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n")
		for line := []byte("X-A: " + long(1000) + "\r\n"); ; {
			if _, err := c.Write(line); err != nil {
				return
			}
		}
	}},
}

func oneEntry(w io.Writer, _ int) { entry(w, 1, "", "") }

// Whatever comes in, from the pipe or from the server, the memory stays bounded,
// and the status says what it was. LETTERTEST_MANY is how much comes: a million
// is a line of a gigabyte, a million keys, and so on.
func TestMemory(t *testing.T) {
	n := number(t, "LETTERTEST_MANY", 40_000)
	for _, tt := range hostiles {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.Write("measure.py", measure)
			url := tt.serve(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := b.Command(ctx, "exec python3 measure.py loki-push --url "+url+" --spool dead --spool-bytes 4GiB --breaker=false "+tt.flags+" >/dev/null")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			cmd.Stderr = &said
			begun := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			tt.input(in, n)
			_ = in.Close()
			err = cmd.Wait()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			peak, _ := b.used()
			if peak>>10 > tt.most || cmd.ProcessState.ExitCode() != tt.status {
				t.Errorf("status %d, %d MiB at most, want %d and less than %d MiB\n%.2000s", cmd.ProcessState.ExitCode(), peak>>10, tt.status, tt.most, said.String())
			}
			t.Logf("%d MiB at most, %v", peak>>10, time.Since(begun).Round(time.Millisecond))
		})
	}
}

// serve starts the server and returns its address.
func (h *hostile) serve(t *testing.T) string {
	t.Helper()
	if h.raw == nil {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if h.reply != nil {
				h.reply(w, r)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.ReadFull(c, make([]byte, 100)) // of the request
				h.raw(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}
