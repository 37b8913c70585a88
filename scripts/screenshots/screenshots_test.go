//go:build screenshots

// Package screenshots looks at what the programs show to people through a real
// browser, and keeps the pictures: make screenshots. It needs chromium.
package screenshots

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

const (
	pictures = testbed.Root + "/docs"
	most     = 150 << 10 // bytes of a picture
)

// lane is a pipeline that runs until the test ends.
const lane = `sf-pull elf --event-type Login,API,Report --follow --resume state.json --org acme --metrics-listen "$PULL" |
	loki-push --max-line-bytes 0 --spool dead --org acme --metrics-listen "$PUSH" |
	ckpt commit state.json --ledger state.ledger --metrics-listen "$COMMIT"`

// audit looks for a type that the lane does not pull.
const audit = `sf-pull list --event-type Login,API,Report,URI --since "$SINCE" --until "$UNTIL" >listing &&
	ckpt audit --ledger state.ledger --spool dead --listing listing --since "$SINCE" --until "$UNTIL" --late 0s --wait 0s --page audit.html >/dev/null
	[ $? -eq 65 ]`

func TestScreenshots(t *testing.T) {
	b := testbed.New(t)
	org := sftest.NewOrg(sftest.Config{})
	defer org.Close()
	now := time.Now().UTC().Truncate(time.Hour)
	org.Fill(sftest.Believable{Types: []string{"Login", "API", "Report", "URI"}, Hours: 4, Rows: 400, Poison: true, Awkward: 100})
	loki := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
	defer loki.Close()
	b.Write("key.pem", org.PrivateKeyPEM())
	at := map[string]string{"PULL": address(t), "PUSH": address(t), "COMMIT": address(t)}
	b.Set(
		"SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_USERNAME="+org.Username, "SF_PULL_PRIVATE_KEY_FILE=key.pem",
		"LOKI_PUSH_URL="+loki.URL, "SF_PULL_INSTANCE=loader-1", "LOKI_PUSH_INSTANCE=loader-1", "CKPT_INSTANCE=loader-1",
		"SINCE="+now.Add(-4*time.Hour).Format(time.RFC3339), "UNTIL="+now.Format(time.RFC3339),
	)
	for name, addr := range at {
		b.Set(name + "=" + addr)
	}
	pipeline := b.Start(lane)
	defer func() {
		_ = syscall.Kill(-pipeline.Cmd.Process.Pid, syscall.SIGTERM)
		if r := pipeline.Wait(); t.Failed() {
			t.Log(r)
		}
	}()
	testbed.Eventually(t, "the lane has nothing left to do", func() bool { return settled(at) })

	b.OK(audit)
	for name, page := range map[string]struct {
		url    string
		height int
		want   []string
	}{
		"statusz-sf-pull":   {"http://" + at["PULL"] + "/statusz", 760, []string{"sf-pull on loader-1", "Ready", "Login"}},
		"statusz-loki-push": {"http://" + at["PUSH"] + "/statusz", 760, []string{"loki-push on loader-1", "Ready", "dead letters", "line_too_long"}},
		"audit":             {"file://" + b.Path("audit.html"), 900, []string{"URI", "not pulled", "sf-pull"}},
	} {
		t.Run(name, func(t *testing.T) { photograph(t, name, page.url, page.height, page.want) })
	}
}

// settled tells whether the lane has nothing left to do.
func settled(at map[string]string) bool {
	push, commit := get(at["PUSH"]), get(at["COMMIT"])
	return strings.Contains(push, `"unsettled":0`) && !strings.Contains(push, `"delivered":0`) && strings.Count(commit, `"source":"eventlogfile"`) >= 6
}

func get(addr string) string {
	resp, err := http.Get("http://" + addr + "/statusz")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

func address(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// photograph has the browser open the page, looks for texts in what it made of
// it, and keeps the picture.
func photograph(t *testing.T, name, url string, height int, want []string) {
	dom := browse(t, "--dump-dom", url)
	for _, text := range want {
		if !strings.Contains(string(dom), text) {
			t.Errorf("no %q in %s", text, dom)
		}
	}
	file, err := filepath.Abs(filepath.Join(pictures, name+".png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	browse(t, "--hide-scrollbars", fmt.Sprintf("--window-size=1200,%d", height), "--screenshot="+file, url)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	colors := map[color.Color]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colors[img.At(x, y)] = true
		}
	}
	if len(text) > most || img.Bounds().Dx() != 1200 || len(colors) < 20 {
		t.Errorf("%s: %d bytes, %v, %d colours", name, len(text), img.Bounds(), len(colors))
	}
}

// browse starts the browser, with nothing of it that calls home.
func browse(t *testing.T, args ...string) []byte {
	t.Helper()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
	}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, stderr.String())
	}
	return out
}
