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
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

const (
	root     = "../.."
	pictures = root + "/docs"
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
	dir := t.TempDir()
	run(t, root, nil, "go", "build", "-o", filepath.Join(dir, "bin")+"/", "./cmd/...")
	org := sftest.NewOrg(sftest.Config{})
	defer org.Close()
	now := time.Now().UTC().Truncate(time.Hour)
	org.Fill(sftest.Believable{Types: []string{"Login", "API", "Report", "URI"}, Hours: 4, Rows: 400, Poison: true, Awkward: 100})
	loki := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
	defer loki.Close()
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte(org.PrivateKeyPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{"PULL": address(t), "PUSH": address(t), "COMMIT": address(t)}
	env := []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
		"SF_PULL_LOGIN_URL=" + org.URL, "SF_PULL_CLIENT_ID=" + org.ClientID, "SF_PULL_USERNAME=" + org.Username, "SF_PULL_PRIVATE_KEY_FILE=key.pem",
		"LOKI_PUSH_URL=" + loki.URL, "SF_PULL_INSTANCE=loader-1", "LOKI_PUSH_INSTANCE=loader-1", "CKPT_INSTANCE=loader-1",
		"SINCE=" + now.Add(-4*time.Hour).Format(time.RFC3339), "UNTIL=" + now.Format(time.RFC3339),
	}
	for name, addr := range at {
		env = append(env, name+"="+addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pipeline := exec.CommandContext(ctx, "sh", "-c", lane)
	pipeline.Dir, pipeline.Env = dir, env
	var stderr bytes.Buffer
	pipeline.Stderr = &stderr
	if err := pipeline.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		run(t, dir, env, "sh", "-c", `kill -TERM $(sed -n 's/^pid //p' pid)`)
		pipeline.Wait()
	}()
	settled(ctx, t, dir, at)

	run(t, dir, env, "sh", "-c", audit)
	for name, page := range map[string]struct {
		url    string
		height int
		want   []string
	}{
		"statusz-sf-pull":   {"http://" + at["PULL"] + "/statusz", 760, []string{"sf-pull on loader-1", "Ready", "Login"}},
		"statusz-loki-push": {"http://" + at["PUSH"] + "/statusz", 760, []string{"loki-push on loader-1", "Ready", "dead letters", "line_too_long"}},
		"audit":             {"file://" + dir + "/audit.html", 900, []string{"URI", "not pulled", "sf-pull"}},
	} {
		t.Run(name, func(t *testing.T) { photograph(ctx, t, name, page.url, page.height, page.want) })
	}
	if t.Failed() {
		t.Log(stderr.String())
	}
}

// settled waits until the lane has nothing left to do, and notes who its head is.
func settled(ctx context.Context, t *testing.T, dir string, at map[string]string) {
	t.Helper()
	for ctx.Err() == nil {
		push, commit := get(at["PUSH"]), get(at["COMMIT"])
		if strings.Contains(push, `"unsettled":0`) && !strings.Contains(push, `"delivered":0`) && strings.Count(commit, `"source":"eventlogfile"`) >= 6 {
			out, err := exec.Command("pgrep", "-f", "^sf-pull elf .*"+at["PULL"]).Output()
			if err != nil {
				t.Fatalf("find sf-pull: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "pid"), []byte("pid "+strings.TrimSpace(string(out))+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatalf("the lane has not settled: %s", get(at["PUSH"]))
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
func photograph(ctx context.Context, t *testing.T, name, url string, height int, want []string) {
	dom := browse(ctx, t, "--dump-dom", url)
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
	browse(ctx, t, "--hide-scrollbars", fmt.Sprintf("--window-size=1200,%d", height), "--screenshot="+file, url)
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
func browse(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
	}, args...)
	cmd := exec.CommandContext(ctx, "chromium", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, stderr.String())
	}
	return out
}

func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	if env == nil {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
