// Package azure keeps a checkpoint document in a block blob of Azure Storage.
// See the section on stores of ckpt(1).
package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/object"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// Environment is what the variables of Azure's own tools say. Without a
// secret in it the credentials are those of the machine, a workload, a managed
// identity or a developer.
type Environment struct {
	Account          string // AZURE_STORAGE_ACCOUNT
	Key              string // AZURE_STORAGE_KEY
	SASToken         string // AZURE_STORAGE_SAS_TOKEN
	ConnectionString string // AZURE_STORAGE_CONNECTION_STRING
}

// New returns the store at loc, azblob://container/blob?account=&endpoint=.
// Nothing is asked yet; secrets learns what requests prove themselves with.
func New(loc checkpoint.Location, env Environment, secrets *secret.Set) (checkpoint.Store, error) {
	name, key, query, err := object.Parse(loc, "CONTAINER/BLOB?account=ACCOUNT&endpoint=URL", "account", "endpoint")
	if err != nil {
		return nil, err
	}
	b := &bucket{name: name, env: env, secrets: secrets, endpoint: strings.TrimRight(query.Get("endpoint"), "/"), clients: map[string]*blockblob.Client{}}
	if account := query.Get("account"); account != "" {
		b.env.Account = account
	}
	if b.endpoint == "" && b.env.Account != "" {
		b.endpoint = "https://" + b.env.Account + ".blob.core.windows.net"
	}
	if b.endpoint == "" && b.env.ConnectionString == "" {
		return nil, sysexits.Errorf(sysexits.Config,
			"store %s: no account: add ?account=ACCOUNT to the URL, or set AZURE_STORAGE_ACCOUNT", loc)
	}
	return object.New(loc.String(), b, key), nil
}

type bucket struct {
	name, endpoint string
	env            Environment
	secrets        *secret.Set

	mu      sync.Mutex
	clients map[string]*blockblob.Client // by key
}

// Nobody is an ETag that no blob has.
func (b *bucket) Nobody() checkpoint.Generation { return "0x0" }

func (b *bucket) Get(ctx context.Context, key string) ([]byte, checkpoint.Generation, error) {
	client, err := b.client(key)
	if err != nil {
		return nil, "", err
	}
	out, err := client.DownloadStream(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil, "", checkpoint.ErrNotFound
	}
	if err != nil {
		return nil, "", b.classify(err)
	}
	defer out.Body.Close()
	data, err := object.ReadAll(out.Body)
	if err != nil {
		return nil, "", err
	}
	return data, generation(out.ETag), nil
}

func (b *bucket) Put(ctx context.Context, key string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	client, err := b.client(key)
	if err != nil {
		return "", err
	}
	var cond blob.ModifiedAccessConditions
	if etag := azcore.ETag(`"` + string(ifGen) + `"`); ifGen != "" {
		cond.IfMatch = &etag
	} else {
		anything := azcore.ETagAny
		cond.IfNoneMatch = &anything
	}
	kind := "application/json"
	out, err := client.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &kind},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &cond},
	})
	switch {
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet), status(err) == http.StatusPreconditionFailed:
		return "", checkpoint.ErrConflict
	case err != nil:
		return "", b.classify(err)
	}
	return generation(out.ETag), nil
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	client, err := b.client(key)
	if err != nil {
		return err
	}
	if _, err = client.Delete(ctx, nil); err != nil && !bloberror.HasCode(err, bloberror.BlobNotFound) {
		return b.classify(err)
	}
	return nil
}

// client makes the client of one blob, with the first credentials that there
// are. Attempts are the caller's affair: a client that retried by itself would
// take its own lost reply for another's write.
func (b *bucket) client(key string) (*blockblob.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if client, ok := b.clients[key]; ok {
		return client, nil
	}
	options := &blockblob.ClientOptions{ClientOptions: policy.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: -1}, Transport: object.Client(nil, b.secrets),
	}}
	client, err := b.newClient(key, options)
	if err != nil {
		return nil, err
	}
	b.clients[key] = client
	return client, nil
}

func (b *bucket) newClient(key string, options *blockblob.ClientOptions) (*blockblob.Client, error) {
	where := b.endpoint + "/" + b.name + "/" + (&url.URL{Path: key}).EscapedPath()
	switch {
	case b.env.ConnectionString != "":
		client, err := blockblob.NewClientFromConnectionString(b.env.ConnectionString, b.name, key, options)
		if err != nil {
			// The library's words may hold the secret.
			return nil, sysexits.Errorf(sysexits.Config, "AZURE_STORAGE_CONNECTION_STRING is not one")
		}
		return client, nil
	case b.env.Key != "":
		cred, err := blob.NewSharedKeyCredential(b.env.Account, b.env.Key)
		if err != nil || b.env.Account == "" {
			return nil, sysexits.Errorf(sysexits.Config, "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY are not an account and its key")
		}
		return wrapped(blockblob.NewClientWithSharedKeyCredential(where, cred, options))
	case b.env.SASToken != "":
		return wrapped(blockblob.NewClientWithNoCredential(where+"?"+strings.TrimPrefix(b.env.SASToken, "?"), options))
	}
	cred, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: options.Transport},
	})
	if err != nil {
		return nil, sysexits.Errorf(sysexits.NoPerm, "no credentials for the container %s: %w", b.name, err)
	}
	return wrapped(blockblob.NewClient(where, cred, options))
}

func wrapped(client *blockblob.Client, err error) (*blockblob.Client, error) {
	return client, sysexits.Wrap(sysexits.Config, err)
}

func generation(etag *azcore.ETag) checkpoint.Generation {
	if etag == nil {
		return ""
	}
	return checkpoint.Generation(strings.Trim(string(*etag), `"`))
}

// status is that of an answer that is a refusal; 0 for an error that is none.
func status(err error) int {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// classify gives an error its exit status, and one line.
func (b *bucket) classify(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			return sysexits.Errorf(sysexits.Config, "the container %s does not exist", b.name)
		}
		text := answer.ErrorCode
		if text == "" {
			text = http.StatusText(answer.StatusCode)
		}
		return sysexits.Errorf(object.Code(answer.StatusCode), "%d %s", answer.StatusCode, text)
	}
	var noToken *azidentity.AuthenticationFailedError
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if errors.As(err, &noToken) || strings.Contains(text, "DefaultAzureCredential") {
		return sysexits.Errorf(sysexits.NoPerm, "no credentials for the container %s: %.300s", b.name, text)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the URL may hold a signature
	}
	return sysexits.Wrap(sysexits.Unavailable, fmt.Errorf("no answer: %w", err))
}
