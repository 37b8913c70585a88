package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// contender is a running ckpt lease that serves metrics.
type contender struct {
	*process
	t       *testing.T
	log     string
	address string
}

func contend(t *testing.T, dir, id string) *contender {
	t.Helper()
	c := &contender{t: t, log: filepath.Join(dir, id+".log"), process: &process{
		cmd: ckpt(t, "lease", filepath.Join(dir, "lease"), "--fence", filepath.Join(dir, "state.json"), "--id", id,
			"--metrics-listen", "127.0.0.1:0", "--", "cat"),
	}}
	var err error
	c.acks, err = c.cmd.StdinPipe() // cat ends with it
	must(t, err)
	f, err := os.Create(c.log)
	must(t, err)
	defer f.Close()
	c.cmd.Stderr = f
	must(t, c.cmd.Start())
	t.Cleanup(func() { c.end() })
	served := regexp.MustCompile(`serving metrics.* address=(\S+)`)
	await(t, "address", func() bool {
		data, err := os.ReadFile(c.log)
		must(t, err)
		if m := served.FindSubmatch(data); m != nil {
			c.address = string(m[1])
		}
		return c.address != ""
	})
	return c
}

func (c *contender) get(path string) (int, string) {
	c.t.Helper()
	resp, err := http.Get("http://" + c.address + path)
	must(c.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(c.t, err)
	return resp.StatusCode, string(body)
}

func (c *contender) ready() bool {
	status, _ := c.get("/readyz")
	return status == http.StatusOK
}

// A standby is not ready, and says why; who leads is, and the gauge tells.
func TestReadiness(t *testing.T) {
	dir := t.TempDir()
	first := contend(t, dir, "first")
	await(t, "leader", first.ready)
	second := contend(t, dir, "second")
	await(t, "standby", func() bool {
		status, body := second.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.TrimSpace(body) == "standby"
	})
	for c, want := range map[*contender]string{first: "\nsf2loki_leader 1\n", second: "\nsf2loki_leader 0\n"} {
		if _, body := c.get("/metrics"); !strings.Contains(body, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if status := first.end(); status != 0 {
		t.Errorf("the first ended with %d", status)
	}
	await(t, "second leader", second.ready)
}
