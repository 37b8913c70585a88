package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sf2loki/pkg/sftest"
)

func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "org")
	o, err := parse([]string{"--dir", dir, "--hours", "2", "--rows", "15", "--types", "Login,Search", "--poison"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan error)
	go func() { done <- run(ctx, o, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	base := strings.TrimSpace(line)
	if base != read("url") || !strings.HasPrefix(read("private-key.pem"), "-----BEGIN PRIVATE KEY") {
		t.Errorf("url %q, %q", base, read("url"))
	}
	var m sftest.Manifest
	if err := json.Unmarshal([]byte(read("manifest.json")), &m); err != nil || m.Rows != 60 || len(m.Files) != 4 || m.OrgID != read("org-id") {
		t.Errorf("manifest %+v, %v", m, err)
	}
	resp, err := http.PostForm(base+"/services/oauth2/token", url.Values{"grant_type": {"client_credentials"},
		"client_id": {read("client-id")}, "client_secret": {read("client-secret")}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("login with what was written: %d", resp.StatusCode)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"--types", "Login,Nothing"}, {"--nothing"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
