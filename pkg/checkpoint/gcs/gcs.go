// Package gcs keeps a checkpoint document in an object of Google Cloud Storage,
// by its JSON API: three requests do not need a library of thirty megabytes.
// See the section on stores of ckpt(1).
package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/object"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

const (
	service = "https://storage.googleapis.com"
	scope   = "https://www.googleapis.com/auth/devstorage.read_write"
	// nowhere stands for a generation of 0, which means that there is no object.
	nowhere = "0"
)

// New returns the store at loc, gs://bucket/object. emulator, when it is not
// empty, is where another server than Google's is, as STORAGE_EMULATOR_HOST
// names it; it is asked without credentials. Nothing is asked yet; secrets learns
// what requests prove themselves with.
func New(loc checkpoint.Location, emulator string, secrets *secret.Set) (checkpoint.Store, error) {
	name, key, _, err := object.Parse(loc, "BUCKET/OBJECT")
	if err != nil {
		return nil, err
	}
	b := &bucket{name: name, base: service, secrets: secrets}
	if emulator != "" {
		if !strings.Contains(emulator, "://") {
			emulator = "http://" + emulator
		}
		b.base, b.made = strings.TrimRight(emulator, "/"), object.Client(nil, secrets)
	}
	return object.New(loc.String(), b, key), nil
}

type bucket struct {
	name, base string
	secrets    *secret.Set

	mu   sync.Mutex
	made *http.Client
}

// Nobody is a generation of long before there was any.
func (b *bucket) Nobody() checkpoint.Generation { return "1" }

func (b *bucket) Get(ctx context.Context, key string) ([]byte, checkpoint.Generation, error) {
	resp, err := b.do(ctx, http.MethodGet, b.object(key)+"?alt=media", nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := object.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, "", err
	case resp.StatusCode == http.StatusOK:
		return data, checkpoint.Generation(resp.Header.Get("X-Goog-Generation")), nil
	case resp.StatusCode == http.StatusNotFound && !b.noBucket(data):
		return nil, "", checkpoint.ErrNotFound
	}
	return nil, "", b.refused(resp.StatusCode, data)
}

func (b *bucket) Put(ctx context.Context, key string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	if ifGen == "" {
		ifGen = nowhere
	}
	if strings.Trim(string(ifGen), "0123456789") != "" {
		return "", checkpoint.ErrConflict // not one of this service
	}
	query := url.Values{"uploadType": {"media"}, "name": {key}, "ifGenerationMatch": {string(ifGen)}}
	resp, err := b.do(ctx, http.MethodPost, b.base+"/upload/storage/v1/b/"+url.PathEscape(b.name)+"/o?"+query.Encode(), data)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := object.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusPreconditionFailed:
		return "", checkpoint.ErrConflict
	case resp.StatusCode != http.StatusOK:
		return "", b.refused(resp.StatusCode, body)
	}
	var made struct {
		Generation string `json:"generation"`
	}
	if err := json.Unmarshal(body, &made); err != nil {
		return "", sysexits.Errorf(sysexits.IOErr, "the answer to a write is none of the service: %.80q", body)
	}
	return checkpoint.Generation(made.Generation), nil
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	resp, err := b.do(ctx, http.MethodDelete, b.object(key), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := object.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotFound {
		return err
	}
	return b.refused(resp.StatusCode, body)
}

func (b *bucket) object(key string) string {
	return b.base + "/storage/v1/b/" + url.PathEscape(b.name) + "/o/" + url.PathEscape(key)
}

func (b *bucket) do(ctx context.Context, method, where string, data []byte) (*http.Response, error) {
	client, err := b.client()
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if data != nil {
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, err)
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, noAnswer(err)
	}
	return resp, nil
}

// client finds the usual credentials once.
func (b *bucket) client() (*http.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil {
		return b.made, nil
	}
	// The token source outlives this call, so it gets no context that ends.
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, object.Client(nil, b.secrets))
	cred, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, sysexits.Errorf(sysexits.NoPerm, "no credentials for the bucket %s: %w", b.name, err)
	}
	b.made = object.Client(nil, b.secrets)
	b.made.Transport = &oauth2.Transport{Source: cred.TokenSource, Base: b.made.Transport}
	return b.made, nil
}

func noAnswer(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		code, text := sysexits.Unavailable, "no answer"
		if refused.Response != nil {
			if text = fmt.Sprintf("%d %s", refused.Response.StatusCode, http.StatusText(refused.Response.StatusCode)); refused.Response.StatusCode/100 == 4 {
				code = sysexits.NoPerm
			}
		}
		return sysexits.Errorf(code, "the credentials got no token: %s%s", text, reason(refused.Body))
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the URL is the store's, which messages name anyway
	}
	return sysexits.Wrap(sysexits.Unavailable, fmt.Errorf("no answer: %w", err))
}

var word = regexp.MustCompile(`^[a-z_]{1,40}$`)

// reason is the code of a refused token. Of the answer nothing else is shown:
// it may quote the credentials.
func reason(body []byte) string {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || !word.MatchString(answer.Error) {
		return ""
	}
	return ": " + answer.Error
}

// noBucket tells the 404 of a bucket from that of an object.
func (b *bucket) noBucket(body []byte) bool {
	return strings.Contains(message(body), "bucket does not exist")
}

func (b *bucket) refused(status int, body []byte) error {
	if status == http.StatusNotFound {
		return sysexits.Errorf(sysexits.Config, "the bucket %s does not exist", b.name)
	}
	text := message(body)
	if text == "" {
		text = http.StatusText(status)
	}
	return sysexits.Errorf(object.Code(status), "%d %.200s", status, text)
}

// message is the service's own words in the body of a refusal.
func message(body []byte) string {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error.Message != "" {
		return answer.Error.Message
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if strings.HasPrefix(line, "<") {
		return "" // a page of something that stands between
	}
	return line
}
