package prooftest

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// bomb is 200 MB of zeros, as 200 kB.
func bomb() []byte {
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	zeros := make([]byte, 1<<20)
	for range 200 {
		_, _ = w.Write(zeros) // memory takes everything
	}
	_ = w.Close()
	return text.Bytes()
}

// What a server's answer becomes when it is unpacked has a bound, and so has
// the memory. sf-pull tells that it came to the bound; loki-push asks for nothing
// that is packed, and takes such an answer for what it is.
func TestBomb(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Write("secret", "x\n")
	answer := bomb()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/token") {
			fmt.Fprintf(w, `{"access_token":"a","instance_url":%q,"token_type":"Bearer","id":"%s/id/00D000000000001EAA/005000000000001AAA"}`, srv.URL, srv.URL)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(srv.Close)
	b.Set("SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_SECRET_FILE=secret", "SF_PULL_LOGIN_URL="+srv.URL,
		"SF_PULL_PRIVATE_KEY_FILE=", "LOKI_PUSH_URL="+srv.URL)
	b.Write("records", `{"ts":"2026-07-01T00:00:00Z","labels":{"a":"b"},"line":"x"}`+"\n")
	for script, says := range map[string]string{
		"exec sf-pull limits":                                                            "an answer of more than 67108864 bytes",
		"exec sf-pull list --event-type Login":                                           "an answer of more than 67108864 bytes",
		"exec sf-pull objects --object LoginHistory":                                     "an answer of more than 67108864 bytes",
		"exec loki-push --max-age 0 --give-up 1s --dead-letter-fd -1 <records":           `answer="200 OK: \x1f`,
		"exec loki-push count --since 2026-07-01T00:00:00Z --until 2026-07-01T01:00:00Z": `no answer of Loki: invalid character '\x1f'`,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		var errs strings.Builder
		cmd.Dir, cmd.Env, cmd.Stderr = b.Dir, b.Env, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		most := watch(cmd.Process.Pid)
		_ = cmd.Wait()
		took := most() >> 20
		cancel()
		t.Logf("%s: %d MB", script, took)
		if status := cmd.ProcessState.ExitCode(); status <= 0 || status == 2 {
			t.Errorf("%s: status %d: %.1000s", script, status, errs.String())
		}
		if !strings.Contains(errs.String(), says) {
			t.Errorf("%s does not tell of %q: %.1000s", script, says, errs.String())
		}
		if took == 0 || took > 256 {
			t.Errorf("%s took %d MB", script, took)
		}
	}
}
