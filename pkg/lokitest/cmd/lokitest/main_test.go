package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// launch runs the program and returns its URL.
func launch(t *testing.T, args ...string) string {
	t.Helper()
	pr, pw := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, pw, io.Discard) }()
	url, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSpace(url)
}

func push(t *testing.T, url, line, token string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"streams":[{"stream":{"app":"a"},"values":[["%d",%q],["%d","good"]]}]}`, time.Now().UnixNano(), line, time.Now().UnixNano())
	req, err := http.NewRequest("POST", url+"/loki/api/v1/push", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := launch(t, "--listen", "127.0.0.1:0", "--state", "none", "--plain", "--latency", "1ms", "--token-file", file,
		"--poison", "evil", "--poison", "500:worse", "--fail", "1:503")
	for _, tc := range []struct {
		line, token string
		status      int
		text        string
	}{
		{"x", "wrong", 401, "unauthorized\n"},
		{"x", "secret", 503, "as asked for\n"},
		{"x", "secret", 204, ""},
		{"an evil one", "secret", 400, "entry for stream '{app=\"a\"}' is refused: it holds \"evil\"\n"},
		{"a worse one", "secret", 500, "refused\n"},
	} {
		if status, text := push(t, url, tc.line, tc.token); status != tc.status || text != tc.text {
			t.Errorf("%s: %d %q", tc.line, status, text)
		}
	}
	req, _ := http.NewRequest("GET", url+"/loki/api/v1/query_range?query=%7Bapp%3D%22a%22%7D", nil)
	req.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if n := strings.Count(string(b), `"good"`); n != 2 || strings.Contains(string(b), "evil") || strings.Contains(string(b), "worse") {
		t.Errorf("%s", b)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"--state", "disk"}, {"operand"}, {"--poison", ""}, {"--fail", "x"}, {"--fail", "1:7"}, {"--nonsense"}, {"--token-file", "/nonexistent"}} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q passes", args)
		}
	}
	for in, want := range map[string]poison{"evil": {400, "evil"}, "500:evil": {500, "evil"}, "a:b": {400, "a:b"}, "9:x": {400, "9:x"}} {
		if got, err := parsePoison(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
}
