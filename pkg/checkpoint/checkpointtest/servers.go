//go:build stores

package checkpointtest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/azure"
	"sf2loki/pkg/checkpoint/gcs"
	"sf2loki/pkg/checkpoint/s3"
)

// Server opens the store in an object of a real server's bucket.
type Server func(t testing.TB, key string) checkpoint.Store

// Servers starts those that names names, by default all of them: s3 gs azblob.
// scripts/test-tools installs them.
func Servers(t *testing.T, names string) map[string]Server {
	t.Helper()
	start := map[string]func(t *testing.T) Server{"s3": startS3, "gs": startGCS, "azblob": startAzure}
	if names == "" {
		names = "s3 gs azblob"
	}
	running := map[string]Server{}
	for _, name := range strings.Fields(names) {
		if start[name] == nil {
			t.Fatalf("STORES names %q", name)
		}
		running[name] = start[name](t)
	}
	return running
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool is the path of what scripts/test-tools installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command("../../scripts/test-tools", name)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("install %s: %s", name, failed.Stderr)
	}
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
	cmd.Env = append(cmd.Environ(), env...)
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
func startS3(t *testing.T) Server {
	dir, addr := t.TempDir(), freeAddr(t)
	must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
	run(t, addr, nil, tool(t, "versitygw"), "-q", "--port", addr, "--access", "test", "--secret", "testtest", "posix", dir)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	return func(t testing.TB, key string) checkpoint.Store {
		s, err := s3.New(parse(t, "s3://bucket/"+key+"?region=us-east-1&endpoint="+url.QueryEscape("http://"+addr)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func startGCS(t *testing.T) Server {
	addr := freeAddr(t)
	host, port, _ := strings.Cut(addr, ":")
	run(t, addr, nil, tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port, "-backend", "memory",
		"-public-host", addr, "-log-level", "error")
	resp, err := http.Post("http://"+addr+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"bucket"}`))
	must(t, err)
	must(t, resp.Body.Close())
	return func(t testing.TB, key string) checkpoint.Store {
		s, err := gcs.New(parse(t, "gs://bucket/"+key), addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func startAzure(t *testing.T) Server {
	addr := freeAddr(t)
	host, port, _ := strings.Cut(addr, ":")
	secret := base64.StdEncoding.EncodeToString([]byte("a key of this test alone"))
	run(t, addr, []string{"AZURITE_ACCOUNTS=test:" + secret}, "node", filepath.Join(tool(t, "azurite"), "node_modules/azurite/dist/src/blob/main.js"),
		"--silent", "--location", t.TempDir(), "--blobHost", host, "--blobPort", port, "--skipApiVersionCheck", "--disableTelemetry")
	makeContainer(t, "http://"+addr, secret)
	return func(t testing.TB, key string) checkpoint.Store {
		loc := parse(t, "azblob://container/"+key+"?endpoint="+url.QueryEscape("http://"+addr+"/test"))
		s, err := azure.New(loc, azure.Environment{Account: "test", Key: secret}, nil)
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
