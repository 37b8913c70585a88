package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// nfsMagic is what statfs(2) calls NFS.
const nfsMagic = 0x6969

// Inspect looks at the document, its directory and its lock. It opens for
// reading only and locks nothing.
func (s *Store) Inspect(context.Context) []checkpoint.Finding {
	path, err := s.target()
	if err != nil {
		return []checkpoint.Finding{checkpoint.Failed("directory", err, "make it, owned by the user that runs the pipeline")}
	}
	dir := filepath.Dir(path)
	findings := []checkpoint.Finding{checkpoint.Passed("directory", dir+" can be written")}
	if err := writable(dir); err != nil {
		findings[0] = checkpoint.Failed("directory", err, "run as the directory's owner, or give it to the user that runs the pipeline")
	}
	return append(findings, inspectFile(path), inspectLock(path+lockSuffix), inspectKind(dir))
}

func inspectFile(path string) checkpoint.Finding {
	_, _, err := read(path)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return checkpoint.Passed("file", path+" does not exist yet; the first commit makes it")
	case err != nil:
		return checkpoint.Failed("file", err, "make it readable to the user that runs the pipeline")
	}
	return checkpoint.Passed("file", path+" can be read")
}

func inspectLock(name string) checkpoint.Finding {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint.Passed("lock", name+" does not exist yet")
	case err != nil:
		return checkpoint.Failed("lock", classify(err), "make it readable to the user that runs the pipeline, or remove it while nothing runs")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = sysexits.Errorf(sysexits.CantCreat, "%s is %s, not a file", name, kind(info.Mode()))
		return checkpoint.Failed("lock", err, "remove it while nothing runs")
	}
	return checkpoint.Passed("lock", name+" can be opened")
}

func inspectKind(dir string) checkpoint.Finding {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return checkpoint.Failed("file system", classify(err), "")
	}
	if st.Type == nfsMagic {
		return checkpoint.Finding{Check: "file system", Level: checkpoint.Warn, Detail: dir + " is on NFS",
			Cure: "let every host mount it with locking (no nolock, no local_lock), or keep the document in an object store"}
	}
	return checkpoint.Passed("file system", dir+" is on a local file system")
}

// Scratch makes a store beside the document for a doctor to write into.
func (s *Store) Scratch(context.Context) (checkpoint.Store, func(context.Context) error, error) {
	path, err := s.target()
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".doctor-"+rand.Text())
	remove := func(context.Context) error {
		err := os.Remove(name + lockSuffix)
		if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return New(name, name), remove, nil
}
