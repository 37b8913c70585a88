package main

import (
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
)

func startObjectCommit(t *testing.T, store string, flags ...string) *process {
	t.Helper()
	p := &process{cmd: ckpt(t, append([]string{"commit", store}, flags...)...)}
	p.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true")
	var err error
	p.acks, err = p.cmd.StdinPipe()
	must(t, err)
	p.cmd.Stderr = &p.stderr
	must(t, p.cmd.Start())
	t.Cleanup(func() { p.end() })
	return p
}

func objectPosition(t *testing.T, c *checkpointtest.Cloud, key string) int {
	t.Helper()
	text, _ := c.Object("bucket/state.json")
	if text == "" {
		return 0
	}
	doc, err := checkpoint.ParseDocument([]byte(text))
	must(t, err)
	value, _ := doc.Get(key)
	n, _ := strconv.Atoi(value) // 0: none yet
	return n
}

// Two committers with keys of their own share an object: all positions are
// final, and the interval bounds the writes.
func TestTwoCommittersOfOneObject(t *testing.T) {
	const acks, interval = 10_000, 10 * time.Millisecond
	c := checkpointtest.NewS3(t)
	store := "s3://bucket/state.json?endpoint=" + url.QueryEscape(c.URL)
	start := time.Now()
	committers := map[string]*process{}
	for _, name := range []string{"a", "b"} {
		committers[name] = startObjectCommit(t, store, "--write-interval", interval.String())
	}
	for i := 1; i <= acks; i++ {
		for name, p := range committers {
			p.send(name+strconv.Itoa(i%7), i)
		}
	}
	for name, p := range committers {
		if status := p.end(); status != 0 {
			t.Errorf("%s ended with %d: %s", name, status, p.stderr.String())
		}
		for i := acks - 6; i <= acks; i++ {
			if got := objectPosition(t, c, name+strconv.Itoa(i%7)); got != i {
				t.Errorf("%s%d is %d, want %d", name, i%7, got, i)
			}
		}
	}
	// Each opens with one write that is refused; each write may meet the
	// other's, once or twice, and be done again.
	most := 3 * 2 * (int(time.Since(start)/interval) + 3)
	if writes := c.Requests(http.MethodPut); writes > most {
		t.Errorf("%d writes in %v, more than %d", writes, time.Since(start), most)
	} else {
		t.Logf("%d acks in %d writes in %v", 2*acks, writes, time.Since(start))
	}
}

func TestTwoCommittersOfOneObjectsKey(t *testing.T) {
	c := checkpointtest.NewS3(t)
	store := "s3://bucket/state.json?endpoint=" + url.QueryEscape(c.URL)
	first := startObjectCommit(t, store, "--write-interval=0")
	second := startObjectCommit(t, store, "--write-interval=0")
	first.send("mine", 1)
	second.send("yours", 1)
	await(t, "both", func() bool { return objectPosition(t, c, "mine") == 1 && objectPosition(t, c, "yours") == 1 })
	first.send("k", 1)
	await(t, "first write", func() bool { return objectPosition(t, c, "k") == 1 })
	second.send("k", 5)
	if status := second.end(); status != 76 || !strings.Contains(second.stderr.String(), "another writer moved k to") {
		t.Errorf("the second ended with %d: %s", status, second.stderr.String())
	}
	first.send("k", 2)
	if status := first.end(); status != 0 || objectPosition(t, c, "k") != 2 {
		t.Errorf("the first ended with %d, k is %d: %s", status, objectPosition(t, c, "k"), first.stderr.String())
	}
}
