//go:build kube

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	manifests = "../../scripts/kubernetes/sf2loki.yaml"
	// admin may do everything, pod what the shipped role allows.
	admin, pod = "token-of-admin", "token-of-pod"
)

// kube is a real kube-apiserver on a real etcd.
type kube struct {
	t    *testing.T
	addr string
	http *http.Client
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func startKube(t *testing.T) *kube {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		log, err := os.Create(filepath.Join(dir, filepath.Base(name)+".log"))
		must(t, err)
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			log.Close()
			if text, _ := os.ReadFile(log.Name()); t.Failed() {
				t.Logf("%s: %s", name, text[max(0, len(text)-3000):])
			}
		})
	}
	etcd, peer := "http://"+freePort(t), "http://"+freePort(t)
	run("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn")
	key := filepath.Join(dir, "sa.key")
	if out, err := exec.Command("openssl", "genrsa", "-out", key, "2048").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tokens := filepath.Join(dir, "tokens.csv")
	must(t, os.WriteFile(tokens, []byte(admin+",admin,1,system:masters\n"+pod+",system:serviceaccount:sf2loki:sf2loki,2\n"), 0o600))
	k := &kube{t: t, addr: freePort(t), http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	_, port, _ := net.SplitHostPort(k.addr)
	run(os.Getenv("KUBE_APISERVER"), "--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+filepath.Join(dir, "certs"), "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-account-issuer=https://127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24", "--token-auth-file="+tokens,
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if status, _ := k.try(admin, http.MethodGet, "/readyz", ""); status == http.StatusOK {
			return k
		}
		if time.Now().After(deadline) {
			t.Fatal("kube-apiserver is not ready")
		}
	}
}

// try sends a request, with YAML for a body.
func (k *kube) try(token, method, path, body string) (status int, answer string) {
	req, err := http.NewRequest(method, "https://"+k.addr+path, strings.NewReader(body))
	must(k.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/yaml")
	resp, err := k.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what there is tells enough
	return resp.StatusCode, string(text)
}

// paths are where objects of a kind are made.
var paths = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/sf2loki/serviceaccounts", "ConfigMap": "/api/v1/namespaces/sf2loki/configmaps",
	"PersistentVolumeClaim": "/api/v1/namespaces/sf2loki/persistentvolumeclaims",
	"Role":                  "/apis/rbac.authorization.k8s.io/v1/namespaces/sf2loki/roles",
	"RoleBinding":           "/apis/rbac.authorization.k8s.io/v1/namespaces/sf2loki/rolebindings",
	"Deployment":            "/apis/apps/v1/namespaces/sf2loki/deployments",
	"PodDisruptionBudget":   "/apis/policy/v1/namespaces/sf2loki/poddisruptionbudgets",
	"CronJob":               "/apis/batch/v1/namespaces/sf2loki/cronjobs",
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/sf2loki/leases"

// apply makes everything that the shipped manifests describe. A real server
// looks at more than the types.
func (k *kube) apply() {
	k.t.Helper()
	if status, answer := k.try(admin, http.MethodPost, "/api/v1/namespaces", "apiVersion: v1\nkind: Namespace\nmetadata: {name: sf2loki}\n"); status != http.StatusCreated {
		k.t.Fatalf("%d: %s", status, answer)
	}
	text, err := os.ReadFile(manifests)
	must(k.t, err)
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(part)[1]
		if status, answer := k.try(admin, http.MethodPost, paths[kind]+"?fieldValidation=Strict", part); status != http.StatusCreated {
			k.t.Errorf("%s: %d: %s", kind, status, answer)
		}
	}
}

// line is a way to the server that can be cut.
type line struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// open returns the address of a new line to the server.
func (l *line) open(t *testing.T, server string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() {
		listener.Close()
		l.set(true)
	})
	l.conns = map[net.Conn]bool{}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.join(near, server)
		}
	}()
	return listener.Addr().String()
}

func (l *line) join(near net.Conn, server string) {
	defer near.Close()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[near], l.conns[far] = true, true
	l.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, near) // either end may go at any time
		far.Close()
	}()
	_, _ = io.Copy(near, far)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, near)
	delete(l.conns, far)
}

func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.conns {
		if cut {
			c.Close()
		}
	}
}

// The shipped manifests are taken by a real server; with the rights of their
// role three contenders are killed, stopped, cut off and robbed of the lease.
func TestKubeContenders(t *testing.T) {
	k := startKube(t)
	k.apply()
	lines := map[string]*line{}
	a := fileArena(t)
	a.lease = "k8s://sf2loki/sf2loki-prod"
	a.remove = func() {
		if status, answer := k.try(admin, http.MethodDelete, leases+"/sf2loki-prod", ""); status != http.StatusOK && status != http.StatusNotFound {
			t.Errorf("remove the lease: %d: %s", status, answer)
		}
	}
	a.env = func(id string) []string {
		path := a.log + "." + id + ".kubeconfig"
		if lines[id] == nil {
			lines[id] = &line{}
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"https://%s","insecure-skip-tls-verify":true}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, lines[id].open(t, k.addr), pod)
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
		return []string{"KUBECONFIG=" + path}
	}
	a.onCut = func(id string, cut bool) { lines[id].set(cut) }
	a.fight([]string{"kill all", "kill ckpt", "kill command", "stop all", "stop ckpt", "stop standby", "remove", "cut"})
	k.refuses(a.lease)
}

// refuses shows what the role does not allow, and how ckpt says so.
func (k *kube) refuses(lease string) {
	k.t.Helper()
	for what, path := range map[string]string{"other leases": leases + "/other", "all leases": leases, "secrets": "/api/v1/namespaces/sf2loki/secrets"} {
		if status, answer := k.try(pod, http.MethodGet, path, ""); status != http.StatusForbidden {
			k.t.Errorf("%s: %d: %s", what, status, answer)
		}
	}
	dir := k.t.TempDir()
	for token, want := range map[string]int{pod: 77, "nobody": 77} {
		config := filepath.Join(dir, "config")
		must(k.t, os.WriteFile(config, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"https://%s","insecure-skip-tls-verify":true}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, k.addr, token), 0o600))
		cmd := ckpt(k.t, "lease", strings.Replace(lease, "sf2loki-prod", "other", 1), "--fence", filepath.Join(dir, "state.json"), "--wait", "0", "--log-level", "error", "--", "true")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // the status says it all
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Count(stderr.String(), "\n") != 1 {
			k.t.Errorf("%s: status %d: %s", token, got, stderr.String())
		}
	}
}
