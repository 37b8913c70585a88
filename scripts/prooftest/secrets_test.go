package prooftest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// The secrets that are planted, with all that encodings change. No eight bytes of
// them may be found anywhere but where they were planted.
const (
	plantedToken    = `tok+4f9c/1d7e=2b6a&c03d"%4f\9a1b8f`
	plantedPassword = `pw 81c2+e07d/55aa=93b1&"%4f\6d20fe`
	plantedInURL    = `url-5be0+cd19/137e=08d4&"%4f\2c9a`
	plantedClient   = `client 54ff+3a3c/6ea9=71e0&"%4f\5bd2`
	plantedSalt     = "salt-bb67ae8584ca"
	plantedS3       = "s3secret-6a09+e667/f3bc="
	plantedSession  = `sess-3c6e+f372/fe94=ab12&"%4f\0e7c`
	plantedAccess   = `AQ+3c6e/f372=fe94b&"%4f\77d1e0`
	plantedAzure    = "YXp1+mUt/TEwZTUyN2ZhZGU2" // base64, as keys of accounts are
	plantedSAS      = "sas+9b05/688c2b3e=f1a0"
	plantedRefresh  = `1//refresh+1f83/d9ab=fb41&"%4f\c5`
	plantedPod      = "pod.5c12-77a0.e9b4"
	plantedIdentity = "web.61fb-a08e.22d7"
)

// plant puts secrets where the programs are given theirs.
func (b *bench) plant() {
	b.Write("token", plantedToken+"\n")
	b.Write("password", plantedPassword+"\n")
	b.Write("client", plantedClient+"\n")
	b.Write("salt", plantedSalt+"\n")
	b.Write("rules.yaml", "eventlogfile:\n  - {action: hash, fields: [USER_NAME]}\n")
	b.Write("records", `{"ts":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","labels":{"source":"a","event_type":"b"},"line":"x","checkpoint_key":"file:x","checkpoint_value":"1"}`+"\n"+
		`{"ts":"2020-01-01T00:00:00Z","labels":{"source":"a","event_type":"b"},"line":"old"}`+"\n")
	b.Write("acks", `{"checkpoint_key":"file:x","checkpoint_value":"1"}`+"\n")
	b.Write("identity", plantedIdentity)
	b.Set("AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY="+plantedS3, "AWS_SESSION_TOKEN="+plantedSession, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true")
}

// plantGoogle puts down credentials of Google, whose tokens come from url.
func (b *bench) plantGoogle(url string) {
	service, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "ckpt@example.com", "private_key_id": "1",
		"private_key": b.org.PrivateKeyPEM(), "token_uri": url})
	if err != nil {
		b.T.Fatal(err)
	}
	b.Write("service.json", string(service))
	user, err := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "c", "client_secret": plantedClient,
		"refresh_token": plantedRefresh, "token_uri": url})
	if err != nil {
		b.T.Fatal(err)
	}
	b.Write("user.json", string(user))
	damaged, err := json.Marshal(map[string]string{"type": "service_account", "private_key": plantedClient, "token_uri": url})
	if err != nil {
		b.T.Fatal(err)
	}
	b.Write("damaged.json", string(damaged))
	b.Write("kube.json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, url, plantedPod))
	b.Write("pages", `i=0
until a=$(sed -n 's/.*serving metrics.*address=\([0-9.:]*\).*/\1/p' "$1"); [ -n "$a" ] || [ $i = 100 ]; do sleep .1; i=$((i + 1)); done
for page in statusz 'statusz?format=html' metrics readyz healthz; do curl -s "http://$a/$page"; done
cat "$1"
`)
}

// secrets are all texts that must not be seen: what was planted, as it is and
// as it is sent, the key, and each token and assertion that the org has seen.
func (b *bench) secrets() []string {
	list := []string{plantedToken, plantedPassword, plantedInURL, plantedClient, plantedSalt, plantedS3, plantedSession, plantedAccess, plantedAzure,
		plantedSAS, plantedRefresh, plantedPod, plantedIdentity}
	for _, text := range []string{plantedToken, "u:" + plantedPassword, "u:" + plantedInURL} {
		list = append(list, base64.StdEncoding.EncodeToString([]byte(text)))
	}
	for line := range strings.Lines(b.org.PrivateKeyPEM()) {
		if !strings.Contains(line, "-----") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	for _, r := range b.org.Requests("") {
		if _, token, ok := strings.Cut(r.Header.Get("Authorization"), "!"); ok { // behind the org's id
			list = append(list, token)
		}
		list = append(list, r.Form["assertion"]...)
	}
	return list
}

// inURL is the password as it stands in a URL.
var inURL = strings.TrimPrefix(url.UserPassword("", plantedInURL).String(), ":")

// attempts are what is run with the secrets: URL, REST and BUS are servers that
// quote what they are sent, the second one after a login.
var attempts = []string{
	// sf-pull, all ways to log in and to fail.
	`sf-pull elf --event-type Login --transforms rules.yaml --transform-salt-file salt`,
	`sf-pull elf --event-type Login --auth client-credentials --client-secret-file client`,
	`SF_PULL_CLIENT_SECRET=` + quoted(plantedClient) + ` sf-pull elf --event-type Login --auth client-credentials`,
	`sf-pull elf --event-type Login --auth client-credentials --client-secret-file client --login-url $URL`,
	`sf-pull elf --event-type Login --login-url $URL`,
	`sf-pull elf --event-type Login --login-url https://${URL#http://}`,
	`sf-pull elf --event-type Login --private-key-file client`,
	`sf-pull elf --event-type Login --private-key-file key.pem --client-secret-file client --nonsense`,
	`sf-pull elf --event-type Login --client-secret ` + quoted(plantedClient),
	`sf-pull elf --event-type Login --plan`,
	`sf-pull objects --object LoginHistory`,
	`sf-pull apexlog`,
	`sf-pull pubsub --topic /event/LoginEventStream --endpoint ${URL#http://} --login-url $URL`,
	`sf-pull list`,
	`sf-pull limits`,
	`sf-pull discover`,
	`sf-pull doctor --transforms rules.yaml --transform-salt-file salt elf --event-type Login`,
	`sf-pull doctor --login-url $URL elf --event-type Login`,
	`sf-pull elf --event-type Login --login-url $REST 3>letters1`,
	`sf-pull objects --object LoginHistory --login-url $REST --dead-letter-fd -1`,
	`sf-pull apexlog --login-url $REST`,
	`sf-pull pubsub --topic /event/LoginEventStream --login-url $REST --endpoint $BUS 3>letters2`,
	`sf-pull list --login-url $REST`,
	`sf-pull limits --login-url $REST`,
	`sf-pull discover --login-url $REST`,
	`sf-pull doctor --login-url $REST --log-format json elf --event-type Login`,
	// loki-push.
	`loki-push --url $URL --token-file token --give-up 1s --spool dead <records`,
	`loki-push --url $URL --user u --password-file password --give-up 1s --spool dead <records`,
	`LOKI_PUSH_TOKEN=` + quoted(plantedToken) + ` loki-push --url $URL --give-up 1s --spool dead <records`,
	`LOKI_PUSH_URL="http://u:` + inURL + `@${URL#http://}" loki-push --give-up 1s --spool dead <records`,
	`LOKI_PUSH_URL="http://u:` + inURL + `@[::1" loki-push --give-up 1s <records`,
	`LOKI_PUSH_URL="https://u:` + inURL + `@${URL#http://}" loki-push --give-up 1s <records`,
	`LOKI_PUSH_URL="http://u:` + inURL + `@${LOKI_PUSH_URL#http://}" loki-push --spool dead <records`,
	`loki-push --token-file token --spool dead --dry-run <records`,
	`loki-push --url $URL --token-file token --max-age 1h --give-up 1s --spool dead <records`,
	`loki-push --url $URL --token-file token --give-up 1s --log-format json 3>letters3 <records`,
	`loki-push probe --url $URL --token-file token`,
	`loki-push probe --url $URL --token-file token --json --sharding`,
	`loki-push count --url $URL --token-file token --since 2026-07-01T00:00:00Z --until 2026-07-01T01:00:00Z`,
	`loki-push count --url https://${URL#http://} --user u --password-file password --since 2026-07-01T00:00:00Z --until 2026-07-01T01:00:00Z`,
	// ckpt.
	`ckpt commit "s3://bucket/state.json?region=us-east-1&endpoint=$URL" --retry-for 1s <acks`,
	`ckpt list "s3://bucket/state.json?region=us-east-1&endpoint=$URL"`,
	`timeout 20 ckpt doctor "s3://bucket/state.json?region=us-east-1&endpoint=$URL"`,
	`AZURE_STORAGE_KEY=` + plantedAzure + ` ckpt list "azblob://c/state.json?account=acme&endpoint=$URL"`,
	`AZURE_STORAGE_SAS_TOKEN="sv=2024&sig=` + url.QueryEscape(plantedSAS) + `" ckpt commit "azblob://c/state.json?account=acme&endpoint=$URL" --retry-for 1s <acks`,
	`AZURE_STORAGE_SAS_TOKEN="sv=2024&sig=` + url.QueryEscape(plantedSAS) + `" ckpt commit "azblob://c/state.json?account=acme&endpoint=http://127.0.0.1:1" --retry-for 1s <acks`,
	`AZURE_STORAGE_CONNECTION_STRING="AccountName=acme;AccountKey=` + plantedAzure + `;BlobEndpoint=$URL" ckpt list azblob://c/state.json`,
	`AZURE_STORAGE_CONNECTION_STRING="nonsense ` + plantedAzure + `" ckpt list azblob://c/state.json`,
	`STORAGE_EMULATOR_HOST=$URL ckpt list gs://bucket/state.json`,
	`GOOGLE_APPLICATION_CREDENTIALS=service.json ckpt list gs://bucket/state.json`,
	`GOOGLE_APPLICATION_CREDENTIALS=service.json ckpt commit gs://bucket/state.json --retry-for 1s <acks`,
	`GOOGLE_APPLICATION_CREDENTIALS=user.json ckpt commit gs://bucket/state.json --retry-for 1s <acks`,
	`GOOGLE_APPLICATION_CREDENTIALS=user.json timeout 20 ckpt doctor gs://bucket/state.json`,
	`GOOGLE_APPLICATION_CREDENTIALS=damaged.json ckpt commit gs://bucket/state.json --retry-for 1s <acks`,
	`GOOGLE_APPLICATION_CREDENTIALS=token ckpt list gs://bucket/state.json`,
	`env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY AWS_ROLE_ARN=arn:aws:iam::123456789012:role/r AWS_WEB_IDENTITY_TOKEN_FILE=identity ` +
		`AWS_ENDPOINT_URL_STS=$URL ckpt commit "s3://bucket/state.json?endpoint=$URL" --retry-for 1s <acks`,
	`KUBECONFIG=kube.json timeout 5 ckpt lease k8s://ns/name --wait 0 -- true`,
	// What programs serve about themselves.
	`(sf-pull elf --event-type Login --follow --metrics-listen 127.0.0.1:0 2>serves1 & p=$!; sh pages serves1; kill $p; wait $p)`,
	`(sf-pull elf --event-type Login --follow --login-url http://127.0.0.1:1 --metrics-listen 127.0.0.1:0 2>serves2 & p=$!; sh pages serves2; kill $p; wait $p)`,
	`(sleep 1 | loki-push --url $URL --token-file token --give-up 1s --spool dead --metrics-listen 127.0.0.1:0 2>serves3 & p=$!; sh pages serves3; wait $p)`,
	`((cat acks; sleep 1) | ckpt commit third.json --metrics-listen 127.0.0.1:0 2>serves4 & p=$!; sh pages serves4; wait $p)`,
	`(loki-push --spool fourth --max-age 1h <records >/dev/null
		dl-replay run --spool fourth --force --metrics-listen 127.0.0.1:0 -- loki-push --url $URL --token-file token --give-up 2s 2>serves5 & p=$!; sh pages serves5; wait $p)`,
	// Goroutine dumps.
	`(sf-pull elf --event-type Login --follow & p=$!; sleep 1; kill -QUIT $p; wait $p)`,
	`(sf-pull pubsub --topic /event/LoginEventStream --endpoint 127.0.0.1:1 & p=$!; sleep 1; kill -QUIT $p; wait $p)`,
	`((cat acks; sleep 2) | ckpt commit other.json & p=$!; sleep 1; kill -QUIT $p; wait $p)`,
	`((cat acks; sleep 2) | ckpt commit "s3://bucket/state.json?region=us-east-1&endpoint=http://127.0.0.1:1" & p=$!; sleep 1; kill -QUIT $p; wait $p)`,
	`(loki-push --spool third --max-age 1h <records >/dev/null; dl-replay run --spool third --force -- loki-push --url http://127.0.0.1:1 --token-file token --give-up 5s & p=$!; sleep 1; kill -QUIT $p; wait $p)`,
	`(sleep 1 | loki-push --url $URL --token-file token --give-up 1s --spool dead & p=$!; sleep .3; kill -QUIT $p; wait $p)`,
	// dl-replay.
	`loki-push --spool again --max-age 1h <records >/dev/null; dl-replay run --spool again --force -- loki-push --url $URL --token-file token --give-up 1s; dl-replay list --spool again; dl-replay show --spool again`,
	// Everything that prints what it is.
	`for p in sf-pull loki-push dl-replay ckpt; do $p completion bash; $p --help; $p --version; done; LOKI_PUSH_TOKEN=` + quoted(plantedToken) + ` loki-push --help`,
	// The status while it runs.
	`(sleep 1 | loki-push --url $URL --token-file token --give-up 1s --spool dead --metrics-file m.prom & p=$!; kill -USR1 $p; wait $p)`,
}

// attempt makes all attempts, a few at a time, and returns what each has said.
func (b *bench) attempt() []string {
	outputs := make([]string, len(attempts))
	var wg sync.WaitGroup
	room := make(chan struct{}, 8)
	for i, script := range attempts {
		room <- struct{}{}
		wg.Go(func() {
			r := b.Run("timeout 60 sh -c " + quoted(script))
			outputs[i] = r.Stdout + r.Stderr
			<-room
		})
	}
	wg.Wait()
	return outputs
}

// Whatever is run, and whatever a server answers and quotes, no output, no file
// and no command line holds a secret, nor eight bytes of one, in any form.
// PROOFTEST_ALL asks for all answers.
func TestSecrets(t *testing.T) {
	list := quotings
	if os.Getenv("PROOFTEST_ALL") == "" {
		list = list[:2]
	}
	for _, answer := range list {
		t.Run(answer.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.plant()
			b.hour("Login", 4, 5, nil)
			srv, rest := answer.echo(t, ""), answer.echo(t, "00Dxx0000001gPL!"+plantedAccess)
			b.plantGoogle(srv.URL)
			b.Set("URL="+srv.URL, "REST="+rest.URL, "BUS="+answer.bus(t),
				"SF_PULL_LOG_LEVEL=debug", "LOKI_PUSH_LOG_LEVEL=debug", "CKPT_LOG_LEVEL=debug", "DL_REPLAY_LOG_LEVEL=debug",
				"SF_PULL_REPORT=pull.report", "LOKI_PUSH_REPORT=push.report", "CKPT_REPORT=ckpt.report",
				"SF_PULL_METRICS_FILE=pull.prom", "LOKI_PUSH_METRICS_FILE=push.prom", "CKPT_METRICS_FILE=ckpt.prom")
			tell := b.watchCommandLines()
			outputs := b.attempt()
			if !strings.Contains(outputs[0], `"line":`) {
				t.Errorf("no salt and no key was used: %s", outputs[0])
			}
			for i, out := range outputs {
				for in, want := range map[string]string{"kill -QUIT": "SIGQUIT: quit", "sh pages serves": "# HELP"} {
					if strings.Contains(attempts[i], in) && !strings.Contains(out, want) {
						t.Errorf("%s: nothing was looked at: %.2000s", attempts[i], out)
					}
				}
			}
			lines := tell()
			secrets := piecesOf(b.secrets())
			for i, out := range outputs {
				b.search(attempts[i], out, secrets)
			}
			for _, line := range lines {
				b.search("a command line", line, secrets)
			}
			b.searchFiles(secrets)
		})
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (b *bench) search(where, text string, secrets *pieces) {
	b.T.Helper()
	if reading, i := secrets.in(text); i >= 0 {
		b.T.Errorf("%s: a secret is told: ...%q", where, reading[max(0, i-200):min(len(reading), i+80)])
	}
}

// searchFiles searches all files but those that the secrets were planted in.
func (b *bench) searchFiles(secrets *pieces) {
	b.T.Helper()
	planted := []string{"token", "password", "client", "salt", "key.pem", "service.json", "user.json", "damaged.json", "kube.json", "identity"}
	err := filepath.WalkDir(b.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(planted, filepath.Base(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b.search(path, string(data), secrets)
		return nil
	})
	if err != nil {
		b.T.Error(err)
	}
}

// watchCommandLines looks at the command lines of the programs until the
// function is called that it returns.
func (b *bench) watchCommandLines() func() []string {
	stop, done := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	seen := map[string]bool{}
	programs := testbed.Bin(b.T)
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			procs, _ := filepath.Glob("/proc/[0-9]*")
			for _, proc := range procs {
				exe, err := os.Readlink(proc + "/exe")
				if err != nil || filepath.Dir(exe) != programs {
					continue
				}
				line, err := os.ReadFile(proc + "/cmdline")
				// One attempt gives a secret on its command line, which is refused.
				if text := string(line); err == nil && !strings.Contains(text, "--client-secret\x00") {
					mu.Lock()
					seen[text] = true
					mu.Unlock()
				}
			}
		}
	}()
	return func() []string {
		close(stop)
		<-done
		var lines []string
		for line := range seen {
			lines = append(lines, line)
		}
		if len(lines) < 5 {
			b.T.Errorf("hardly any command line was seen: %q", lines)
		}
		return lines
	}
}

// The supervisor hands secrets on by the environment, each program its own.
func TestSecretsOfLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plant()
	b.hour("Login", 4, 5, nil)
	script, err := filepath.Abs(filepath.Join(testbed.Root, "scripts/sf2loki"))
	if err != nil {
		t.Fatal(err)
	}
	b.Write("lane.conf", strings.Join([]string{
		"SF2LOKI_SOURCE=elf", "SF2LOKI_STATE=" + b.Path("state.json"), "SF2LOKI_RUN_DIR=" + b.Path("run"),
		"SF_PULL_EVENT_TYPE=Login", "SF_PULL_LOGIN_URL=" + b.org.URL, "SF_PULL_CLIENT_ID=" + b.org.ClientID,
		"SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_SECRET=" + b.org.ClientSecret,
		"LOKI_PUSH_URL=" + b.srv.URL, "LOKI_PUSH_TOKEN=" + quoted(plantedToken), "LOKI_PUSH_SPOOL=" + b.Path("dead"), "",
	}, "\n"))
	tell := b.watchCommandLines()
	outputs := ""
	for _, command := range []string{"check ./lane.conf", "status ./lane.conf", "backfill ./lane.conf --since 2026-01-01 --until 2030-01-01",
		"audit ./lane.conf --since 2026-01-01 --until 2030-01-01 --loki", "replay ./lane.conf", "nonsense", "--help"} {
		r := b.Run("exec " + script + " " + command)
		outputs += r.Stdout + r.Stderr
	}
	lines := tell()
	secrets := piecesOf(append(b.secrets(), b.org.ClientSecret))
	b.search("the supervisor", outputs, secrets)
	b.search("a command line", strings.Join(lines, "\n"), secrets)
	if err := os.Remove(b.Path("lane.conf")); err != nil {
		t.Fatal(err)
	}
	b.searchFiles(secrets)
}

// The test itself can find what it looks for, and servers do quote it.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	for _, answer := range quotings {
		for _, secret := range []string{plantedToken, plantedPassword} {
			b := &bench{Bed: &testbed.Bed{T: &testing.T{}, Dir: t.TempDir()}}
			b.search("here", "a "+answer.quote(secret)[:30], piecesOf([]string{secret}))
			if !b.T.Failed() {
				t.Errorf("%s: a secret was not found", answer.name)
			}
		}
	}
}
