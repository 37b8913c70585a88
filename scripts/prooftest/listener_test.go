package prooftest

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// A thousand who connect to a program and ask for nothing take no more than a
// few of its descriptors, and keep nobody from the metrics.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	b := testbed.New(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(testbed.Bin(t), "ckpt"), "commit", b.Path("state.json"), "--metrics-listen", "127.0.0.1:0")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	found := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("no address: %q, %v", line, err)
	}
	most := 0
	for i := range 1000 {
		c, err := net.DialTimeout("tcp", found[1], time.Minute)
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		defer c.Close()
		if i%50 == 49 {
			fds, err := os.ReadDir("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/fd")
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, len(fds))
		}
	}
	if most > 100 {
		t.Errorf("%d descriptors are open", most)
	}
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Get("http://" + found[1] + "/metrics")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("metrics: %+v, %v", resp, err)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 75 { // input of not a byte
		t.Error(err)
	}
}
