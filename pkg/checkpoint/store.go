package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sf2loki/pkg/sysexits"
)

// Generation names one state of a stored document: a hash of its content, an
// ETag, a generation number. Empty means that there is no document.
type Generation string

// Store holds one document. Its errors carry the exit status that they mean;
// those of 69, 74 and 75 are worth another try.
type Store interface {
	// Get reads the document. ErrNotFound: there is none yet.
	Get(ctx context.Context) ([]byte, Generation, error)
	// Put replaces the document if its generation still is ifGen, and tells the
	// new one. ErrConflict: it is another, and nothing was written. After any
	// other error the document may have been written.
	Put(ctx context.Context, data []byte, ifGen Generation) (Generation, error)
	// String names the store as its user wrote it.
	String() string
}

// Preparer is a Store that can tell, before there is anything to write,
// whether writing would work.
type Preparer interface {
	Prepare(ctx context.Context) error
}

// Prober is a Store that a doctor can examine without touching its document.
type Prober interface {
	// Inspect looks at what is there, without changing or locking it.
	Inspect(ctx context.Context) []Finding
	// Scratch makes a store of the same kind in the same place, and what
	// removes it again.
	Scratch(ctx context.Context) (Store, func(context.Context) error, error)
}

// What a Store says about generations.
var (
	ErrNotFound = errors.New("there is no document yet")
	ErrConflict = errors.New("the document has changed meanwhile")
)

// Retryable reports whether the same call may succeed a little later.
func Retryable(err error) bool {
	switch sysexits.Of(err) {
	case sysexits.Unavailable, sysexits.IOErr, sysexits.TempFail:
		return true
	}
	return false
}

// Location is where a document lives, as a user writes it: a path or a URL.
type Location struct {
	Scheme string   // file, s3, gs, azblob
	Path   string   // of a file
	URL    *url.URL // of all others
	text   string
}

// String is the location as it was written.
func (l Location) String() string { return l.text }

// ParseLocation reads a path or a URL. Only text with :// in it is a URL.
func ParseLocation(text string) (Location, error) {
	l := Location{Scheme: "file", Path: text, text: text}
	if text == "" {
		return l, sysexits.Errorf(sysexits.Usage, "the store's name is empty")
	}
	if strings.ContainsRune(text, 0) {
		return l, sysexits.Errorf(sysexits.Usage, "store %q: a NUL in a path", text)
	}
	if !strings.Contains(text, "://") {
		return l, nil
	}
	u, err := url.Parse(text)
	if err != nil && strings.Contains(text, "@") {
		return l, sysexits.Errorf(sysexits.Usage, "the store's URL cannot be read: it names no user, and other characters need percent-encoding")
	}
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return l, sysexits.Errorf(sysexits.Usage, "store %q: %w", text, err)
	}
	if u.User != nil || strings.ContainsAny(u.Query().Get("endpoint"), "@?") {
		return l, sysexits.Errorf(sysexits.Config, "store %s://%s%s: credentials do not belong into a store's URL", u.Scheme, u.Host, u.EscapedPath())
	}
	l.Scheme, l.URL, l.Path = u.Scheme, u, ""
	if u.Scheme != "file" {
		return l, nil
	}
	if u.Host != "" && u.Host != "localhost" {
		return l, sysexits.Errorf(sysexits.Config, "store %s: a file URL names no host; write file:///%s%s or a path", text, u.Host, u.Path)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.Path == "" {
		return l, sysexits.Errorf(sysexits.Config, "store %s: a file URL is file:// and an absolute path, nothing else", text)
	}
	l.Path = u.Path
	return l, nil
}

// load reads and parses what store holds. A store without a document gives an
// empty one.
func load(ctx context.Context, store Store) (Document, Generation, error) {
	data, gen, err := store.Get(ctx)
	if errors.Is(err, ErrNotFound) {
		return Document{}, "", nil
	}
	if err != nil {
		return Document{}, "", fmt.Errorf("read %s: %w", store, err)
	}
	doc, err := ParseDocument(data)
	if err != nil {
		return Document{}, "", sysexits.Errorf(sysexits.Config,
			"%s is not a checkpoint document: %w; move it aside, or restore one with ckpt import", store, err)
	}
	return doc, gen, nil
}

// Load reads the document of store. A store that has none yet gives an empty
// one, and found is false. A document that was moved away is an error.
func Load(ctx context.Context, store Store) (doc Document, found bool, err error) {
	var gen Generation
	err = readRetry.do(ctx, func() (err error) {
		doc, gen, err = load(ctx, store)
		return err
	})
	if err == nil {
		err = checkMoved(store, doc)
	}
	if err != nil {
		return Document{}, false, err
	}
	return doc, gen != "", nil
}

// loadFenced is load of a document that lives here, with the least epoch that
// may write it.
func loadFenced(ctx context.Context, store Store) (doc Document, gen Generation, fence uint64, err error) {
	if doc, gen, err = load(ctx, store); err == nil {
		err = checkMoved(store, doc)
	}
	if err != nil {
		return Document{}, "", 0, err
	}
	if fence, err = doc.FenceEpoch(); err != nil {
		return Document{}, "", 0, fmt.Errorf("%s: %w", store, err)
	}
	return doc, gen, fence, nil
}

// loadToWrite is loadFenced for a writer of that epoch. One below the stored
// epoch is refused: a newer leader is at work. Without one, 0, there is nothing
// to compare.
func loadToWrite(ctx context.Context, store Store, epoch uint64) (Document, Generation, error) {
	doc, gen, fence, err := loadFenced(ctx, store)
	if err == nil && epoch > 0 && epoch < fence {
		err = sysexits.Errorf(sysexits.Protocol, "%s is fenced: epoch %d leads, ours is %d", store, fence, epoch)
	}
	return doc, gen, err
}

func checkMoved(store Store, doc Document) error {
	if to, ok := doc.MovedTo(); ok {
		return sysexits.Errorf(sysexits.Protocol, "%s was moved to %s; use that", store, to)
	}
	return nil
}
