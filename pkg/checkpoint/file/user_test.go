package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/sysexits"
)

// asUser, in the environment, makes this binary do one thing as an ordinary
// user and report it: root may do everything, so root proves nothing.
const asUser = "FILE_TEST_AS_USER"

func TestMain(m *testing.M) {
	if path := os.Getenv(asUser); path != "" {
		ordinaryUser(path)
		return
	}
	os.Exit(m.Run())
}

func ordinaryUser(path string) {
	background := context.Background()
	store := file.New(path, path)
	_, gen, getErr := store.Get(background)
	if errors.Is(getErr, checkpoint.ErrNotFound) {
		getErr = nil
	}
	_, putErr := store.Put(background, []byte(`{"by":"user"}`), gen)
	var levels []string
	for _, f := range store.Inspect(background) {
		if f.Level != checkpoint.Pass {
			levels = append(levels, f.Check)
		}
	}
	fmt.Printf("get=%d prepare=%d put=%d doctor=%s\n", sysexits.Of(getErr),
		sysexits.Of(store.Prepare(background)), sysexits.Of(putErr), strings.Join(levels, ","))
}

func TestPermissions(t *testing.T) {
	tests := []struct {
		name            string
		dir, file, lock os.FileMode // of root or of ourselves; 0 for a file: there is none
		want            string
	}{
		{"all there", 0o777, 0o666, 0o666, "get=0 prepare=0 put=0 doctor="},
		{"lock to read only", 0o777, 0o666, 0o444, "get=0 prepare=0 put=0 doctor="},
		{"unreadable document", 0o777, 0o200, 0o666, "get=77 prepare=77 put=77 doctor=file"},
		{"unreadable lock", 0o777, 0o666, 0o200, "get=0 prepare=77 put=77 doctor=lock"},
		{"directory to read only", 0o555, 0o444, 0o666, "get=0 prepare=77 put=77 doctor=directory"},
		{"nothing there, directory to read only", 0o555, 0, 0, "get=0 prepare=77 put=77 doctor=directory"},
		{"closed directory", 0o600, 0o666, 0o666, "get=77 prepare=77 put=77 doctor=directory,file,lock"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "ckpt")
			must(t, err)
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700); _ = os.RemoveAll(dir) })
			path := filepath.Join(dir, "state.json")
			for name, mode := range map[string]os.FileMode{path: test.file, path + ".lock": test.lock} {
				if mode != 0 {
					must(t, os.WriteFile(name, []byte("{}"), 0o600))
					must(t, os.Chmod(name, ownerMode(mode)))
				}
			}
			must(t, os.Chmod(dir, ownerMode(test.dir)))
			if got := runAsUser(t, path); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// ownerMode gives the owner what the mode says for others, so that the test
// means the same whether others or we ourselves are asked.
func ownerMode(mode os.FileMode) os.FileMode {
	if os.Getuid() == 0 {
		return mode
	}
	return mode&0o007<<6 | mode&0o077
}

func runAsUser(t *testing.T, path string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	if os.Getuid() == 0 {
		self = reachable(t, self)
		cmd = exec.Command(self)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	cmd.Dir = "/"
	cmd.Env = []string{asUser + "=" + path}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// reachable copies the test binary to where every user may run it.
func reachable(t *testing.T, self string) string {
	t.Helper()
	data, err := os.ReadFile(self)
	must(t, err)
	dir, err := os.MkdirTemp("", "ckpt")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	name := filepath.Join(dir, "test")
	must(t, os.WriteFile(name, data, 0o700))
	must(t, os.Chmod(name, 0o755))
	return name
}
