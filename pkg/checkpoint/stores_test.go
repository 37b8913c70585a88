//go:build stores

package checkpoint_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
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

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/azure"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/checkpoint/gcs"
	"sf2loki/pkg/checkpoint/s3"
)

// The tests of this file run against the servers that STORES names, by
// default all of them: s3 gs azblob.

// server opens the store in an object of a server's bucket.
type server func(t testing.TB, key string) checkpoint.Store

func servers(t *testing.T) map[string]server {
	t.Helper()
	start := map[string]func(t *testing.T) server{"s3": startS3, "gs": startGCS, "azblob": startAzure}
	names := os.Getenv("STORES")
	if names == "" {
		names = "s3 gs azblob"
	}
	running := map[string]server{}
	for _, name := range strings.Fields(names) {
		if start[name] == nil {
			t.Fatalf("STORES names %q", name)
		}
		running[name] = start[name](t)
	}
	return running
}

func TestServers(t *testing.T) {
	for name, open := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("conformance", func(t *testing.T) { conform(t, open) })
			t.Run("doctor", func(t *testing.T) { examine(t, open) })
			t.Run("two committers", func(t *testing.T) { commitTogether(t, open) })
			t.Run("same key", func(t *testing.T) { commitAgainst(t, open) })
		})
	}
}

var objects atomic.Int64

func conform(t *testing.T, open server) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		key := fmt.Sprintf("conformance/%d.json", objects.Add(1))
		return func() checkpoint.Store { return open(t, key) }
	})
}

func examine(t *testing.T, open server) {
	store := open(t, "doctor.json")
	for range 2 {
		findings := checkpoint.Doctor(t.Context(), store)
		if err := checkpoint.Verdict(findings); err != nil {
			t.Errorf("%v: %+v", err, findings)
		}
		must(t, checkpoint.Update(t.Context(), store, 0, checkpoint.DefaultRetry, func(doc *checkpoint.Document) error {
			doc.Set("k", "1")
			return nil
		}))
	}
	if err := open(t, "doctor.json").(checkpoint.Preparer).Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}

// Two committers with keys of their own share a document, at no more than a
// write an interval each.
func commitTogether(t *testing.T, open server) {
	const acks, interval = 10_000, 50 * time.Millisecond
	var wg sync.WaitGroup
	var writes atomic.Int64
	start := time.Now()
	for _, key := range []string{"a", "b"} {
		wg.Go(func() {
			c, err := checkpoint.NewCommitter(t.Context(), open(t, "shared.json"), 0, checkpoint.DefaultRetry)
			if err != nil {
				t.Error(err)
				return
			}
			due := time.NewTicker(interval)
			defer due.Stop()
			for i := 1; i <= acks; i++ {
				c.Stage(checkpoint.Position{Key: key, Value: strconv.Itoa(i)})
				if i%500 != 0 {
					continue
				}
				<-due.C
				writes.Add(1)
				if _, err := c.Write(t.Context(), func() error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	doc, _, err := checkpoint.Load(t.Context(), open(t, "shared.json"))
	must(t, err)
	for _, key := range []string{"a", "b"} {
		if got, _ := doc.Get(key); got != strconv.Itoa(acks) {
			t.Errorf("%s is %s, want %d", key, got, acks)
		}
	}
	t.Logf("%d writes in %v", writes.Load(), time.Since(start))
}

func commitAgainst(t *testing.T, open server) {
	first, err := checkpoint.NewCommitter(t.Context(), open(t, "key.json"), 0, checkpoint.DefaultRetry)
	must(t, err)
	second, err := checkpoint.NewCommitter(t.Context(), open(t, "key.json"), 0, checkpoint.DefaultRetry)
	must(t, err)
	nothing := func() error { return nil }
	first.Stage(checkpoint.Position{Key: "k", Value: "1"})
	_, err = first.Write(t.Context(), nothing)
	must(t, err)
	second.Stage(checkpoint.Position{Key: "k", Value: "2"})
	if _, err = second.Write(t.Context(), nothing); err == nil || !strings.Contains(err.Error(), "another writer moved k") {
		t.Errorf("the second committer of a key: %v", err)
	}
}

// tool is the path of what scripts/test-tools installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command("../../scripts/test-tools", name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), name)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// run starts a server for as long as the test lasts, and waits until it
// accepts connections.
func run(t *testing.T, addr string, env []string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen: %v", argv[0], err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func parse(t testing.TB, text string) checkpoint.Location {
	t.Helper()
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// startS3 keeps ETags in extended attributes: with --sidecar this server puts
// them beside the objects, and writers who meet lose writes.
func startS3(t *testing.T) server {
	dir, addr := t.TempDir(), freeAddr(t)
	must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
	run(t, addr, nil, tool(t, "versitygw"), "-q", "--port", addr, "--access", "test", "--secret", "testtest", "posix", dir)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	return func(t testing.TB, key string) checkpoint.Store {
		s, err := s3.New(parse(t, "s3://bucket/"+key+"?region=us-east-1&endpoint="+url.QueryEscape("http://"+addr)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func startGCS(t *testing.T) server {
	addr := freeAddr(t)
	host, port, _ := strings.Cut(addr, ":")
	run(t, addr, nil, tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port, "-backend", "memory",
		"-public-host", addr, "-log-level", "error")
	resp, err := http.Post("http://"+addr+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"bucket"}`))
	must(t, err)
	must(t, resp.Body.Close())
	return func(t testing.TB, key string) checkpoint.Store {
		s, err := gcs.New(parse(t, "gs://bucket/"+key), addr)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func startAzure(t *testing.T) server {
	addr := freeAddr(t)
	host, port, _ := strings.Cut(addr, ":")
	secret := base64.StdEncoding.EncodeToString([]byte("a key of this test alone"))
	run(t, addr, []string{"AZURITE_ACCOUNTS=test:" + secret}, "node", filepath.Join(tool(t, "azurite"), "node_modules/azurite/dist/src/blob/main.js"),
		"--silent", "--location", t.TempDir(), "--blobHost", host, "--blobPort", port, "--skipApiVersionCheck", "--disableTelemetry")
	makeContainer(t, "http://"+addr, secret)
	return func(t testing.TB, key string) checkpoint.Store {
		loc := parse(t, "azblob://container/"+key+"?endpoint="+url.QueryEscape("http://"+addr+"/test"))
		s, err := azure.New(loc, azure.Environment{Account: "test", Key: secret})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// makeContainer is the one request that the store itself never makes.
func makeContainer(t *testing.T, base, secret string) {
	t.Helper()
	const version = "2021-08-06"
	date := time.Now().UTC().Format(http.TimeFormat)
	text := "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" + date + "\nx-ms-version:" + version + "\n/test/test/container\nrestype:container"
	raw, err := base64.StdEncoding.DecodeString(secret)
	must(t, err)
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(text))
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, base+"/test/container?restype=container", nil)
	must(t, err)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", version)
	req.Header.Set("Authorization", "SharedKey test:"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("make a container: %s", resp.Status)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
