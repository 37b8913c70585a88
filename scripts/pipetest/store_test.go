package pipetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// loki starts a simulated Loki that ends with the test.
func loki(t *testing.T, c lokitest.Config) *lokitest.Server {
	t.Helper()
	srv := lokitest.NewServer(c)
	t.Cleanup(srv.Close)
	return srv
}

// anyAge are the rules of a Loki that takes old files.
func anyAge(tenant string, l *lokitest.Limits) {
	lokitest.Plain(tenant, l)
	l.RejectOldAge = 0
}

// held is what a simulated Loki holds. What Loki adds by itself is left out.
func held(srv *lokitest.Server) tally {
	got := tally{}
	for _, e := range srv.Entries("fake") {
		labels, metadata := map[string]string{}, map[string]string{}
		for _, l := range e.Labels {
			labels[l.Name] = l.Value
		}
		for _, l := range e.Metadata {
			if l.Name != "detected_level" {
				metadata[l.Name] = l.Value
			}
		}
		got.add(entry{e.Nanos, pairs(labels), pairs(metadata), e.Line})
	}
	return got
}

// victoriaLogs is the URL of one for the whole package.
var victoriaLogs = sync.OnceValues(startVictoriaLogs)

func startVictoriaLogs() (string, error) {
	tools := exec.Command(testbed.Root+"/scripts/test-tools", "victoria-logs")
	tools.Stderr = os.Stderr
	out, err := tools.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/test-tools victoria-logs: %w", err)
	}
	dir, err := os.MkdirTemp("", "pipetest-vlogs-")
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(out)), "victoria-logs"),
		"-storageDataPath="+dir, "-httpListenAddr="+addr, "-loki.disableMessageParsing", "-retentionPeriod=100y",
		"-futureRetention=2d", "-search.maxQueryDuration=10m", "-inmemoryDataFlushInterval=1s", "-loggerLevel=ERROR")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	exited := make(chan error, 1)
	go func() {
		started <- cmd.Start()
		exited <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return "", err
	}
	testbed.AtExit(func() {
		_ = cmd.Process.Kill()
		<-exited
		os.RemoveAll(dir)
	})
	base := "http://" + addr
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, err := http.Get(base + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return base, nil
			}
		}
		select {
		case err := <-exited:
			return "", fmt.Errorf("victoria-logs ended: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("victoria-logs is not there: %w", err)
		}
	}
}

var tenants atomic.Int64

// vlTenant is a tenant of VictoriaLogs that nobody else uses.
type vlTenant struct {
	URL string
	ID  string // for X-Scope-OrgID
}

func newVLTenant(t *testing.T) *vlTenant {
	t.Helper()
	base, err := victoriaLogs()
	if err != nil {
		t.Fatal(err)
	}
	return &vlTenant{base, strconv.FormatInt(100+tenants.Add(1), 10)}
}

// query calls f for each line of an answer.
func (v *vlTenant) query(t *testing.T, logsQL string, f func(line []byte)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, path := range []string{"/internal/force_flush", "/select/logsql/query?query=" + url.QueryEscape(logsQL)} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("AccountID", v.ID)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		if strings.HasPrefix(path, "/internal") {
			continue
		}
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			f(lines.Bytes())
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// held is what VictoriaLogs holds of the tenant, repeats counted.
func (v *vlTenant) held(t *testing.T) tally {
	t.Helper()
	got := tally{}
	v.query(t, "*", func(line []byte) {
		var fields map[string]string
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%.200s: %v", line, err)
		}
		when, err := time.Parse(time.RFC3339Nano, fields["_time"])
		if err != nil {
			t.Fatal(err)
		}
		// Stream labels are listed twice: in _stream, and as fields.
		labels := streamLabels(t, fields["_stream"])
		e := entry{nanos: when.UnixNano(), labels: pairs(labels), line: fields["_msg"]}
		for name := range labels {
			delete(fields, name)
		}
		for _, name := range []string{"_time", "_stream", "_stream_id", "_msg"} {
			delete(fields, name)
		}
		e.metadata = pairs(fields)
		got.add(e)
	})
	return got
}

// streamLabels reads {a="b",c="d"}.
func streamLabels(t *testing.T, text string) map[string]string {
	t.Helper()
	labels := map[string]string{}
	for rest := strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"); rest != ""; rest = strings.TrimPrefix(rest, ",") {
		name, after, ok := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(after)
		if !ok || err != nil {
			t.Fatalf("stream %s", text)
		}
		labels[name], _ = strconv.Unquote(quoted)
		rest = after[len(quoted):]
	}
	return labels
}
