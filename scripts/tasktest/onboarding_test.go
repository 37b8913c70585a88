package tasktest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// steps are the sections of sf2loki-onboarding(7) that have commands.
var steps = []task{
	{"1. A key and a certificate", nil, certificate},
	{"5. Look at it", nil, lookAtOrg},
	{"Renewal of the certificate", nil, renewal},
	{"Client credentials instead", nil, clientCredentials},
}

// What the onboarding page has people type, as far as no org has to be set up:
// the simulated one comes with a key of its own.
func TestOnboarding(t *testing.T) {
	left := sections(t, "sf2loki-onboarding.7")
	for _, tt := range steps {
		blocks := left[tt.title]
		delete(left, tt.title)
		t.Run(tt.title, func(t *testing.T) { tt.do(newBench(t), blocks) })
	}
	for title, blocks := range left {
		if len(blocks) > 0 {
			t.Errorf("nobody tries %q", title)
		}
	}
}

func certificate(b *bench, blocks []string) {
	b.sh(0, blocks[0]+"\nstat -c %a prod.pem", "600")
	b.sh(0, "openssl x509 -in prod.crt -noout -subject", "sf2loki-prod")
	// The key is one that sf-pull takes; the org knows another certificate.
	b.acme("--hours", "1")
	b.sh(77, "sf-pull doctor --private-key-file prod.pem", "invalid assertion")
}

func lookAtOrg(b *bench, blocks []string) {
	b.org("--hours", "1", "--rows", "5", "--debug-logs", "1")
	b.sh(0, blocks[0], "PASS  login:", "PASS  event_log_files:", `"kind":"event_type"`)
}

func renewal(b *bench, blocks []string) {
	b.acme("--hours", "1")
	b.sh(0, sections(b.T, "sf2loki-onboarding.7")["1. A key and a certificate"][0])
	good := b.read("etc/sf2loki/prod.pem")
	b.sh(0, "cp prod.crt /etc/sf2loki/")
	if r := b.sh(0, blocks[0]); strings.Contains(r.Stdout, "ends within") {
		b.T.Errorf("%v", r)
	}
	b.sh(0, strings.Replace(blocks[0], "2592000", "99999999", 1), "the certificate of sf2loki ends within 30 days")
	b.Write("prod.pem", good)
	b.sh(0, blocks[1], "PASS  login:")
}

func clientCredentials(b *bench, blocks []string) {
	b.org("--hours", "1")
	b.Write("etc/sf2loki/client-secret", b.read("org/client-secret")+"\n")
	b.sh(0, blocks[0], "PASS  login:")
}

// asked counts the calls that the org has answered.
func (b *bench) asked() int {
	b.T.Helper()
	res, err := http.Post(b.read("org/url")+"/__sftest/requests", "application/json", strings.NewReader(`{"match":"/services/data/"}`))
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Requests []string }
	text, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(text, &answer); err != nil {
		b.T.Fatalf("%s: %v", text, err)
	}
	return len(answer.Requests)
}

// A pass of a lane costs the calls that the page has in its table: here after
// the one or two of the start.
func TestCalls(t *testing.T) {
	b := newBench(t)
	b.acme("--hours", "3", "--rows", "5", "--debug-logs", "1")
	b.Set("LOKI_PUSH_ALLOW_EMPTY=true")
	const types, files = 6, 2
	for _, tt := range []struct {
		source      string
		start, pass int
	}{
		{"elf --event-type '*'", 1, types + 1 + files},
		{"objects --object LoginHistory", 2, 1},
		{"apexlog", 2, 1},
	} {
		script := "sf-pull " + tt.source + " --resume state.json | loki-push | ckpt commit state.json"
		b.sh(0, script)
		for _, eventType := range []string{"Login", "API"} {
			at := time.Now().UTC()
			body, err := json.Marshal(map[string]any{"type": eventType, "start": at.Truncate(time.Hour).Add(-time.Hour), "rows": 5, "seed": 9, "created": at.Add(-6 * time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			b.control("hour", string(body))
		}
		before := b.asked()
		b.sh(0, script)
		if got := b.asked() - before; got != tt.start+tt.pass {
			t.Errorf("a run of %s costs %d calls, not %d and %d for its start", tt.source, got, tt.pass, tt.start)
		}
	}
}
