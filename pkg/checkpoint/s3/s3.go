// Package s3 keeps a checkpoint document in an object of Amazon S3, or of a
// server that speaks as S3 does and honours If-Match and If-None-Match. See the
// section on stores of ckpt(1).
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/object"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// Store is a checkpoint.Store in S3. An ETag is a hash of the content, so its
// documents carry a sequence.
type Store struct{ *object.Store }

// Sequenced marks the store.
func (Store) Sequenced() {}

// New returns the store at loc, s3://bucket/key?region=&endpoint=. Nothing is
// asked yet; secrets learns what requests prove themselves with.
func New(loc checkpoint.Location, secrets *secret.Set) (checkpoint.Store, error) {
	name, key, query, err := object.Parse(loc, "BUCKET/KEY?region=REGION&endpoint=URL", "region", "endpoint")
	if err != nil {
		return nil, err
	}
	b := &bucket{name: name, region: query.Get("region"), endpoint: query.Get("endpoint"), secrets: secrets}
	if e := b.endpoint; e != "" && !strings.HasPrefix(e, "http://") && !strings.HasPrefix(e, "https://") {
		return nil, sysexits.Errorf(sysexits.Config, "store %s: the endpoint is not a URL", loc)
	}
	return Store{object.New(loc.String(), b, key)}, nil
}

type bucket struct {
	name, region, endpoint string
	secrets                *secret.Set

	mu   sync.Mutex
	made *s3.Client
}

// Nobody is the hash of no content that is a document.
func (b *bucket) Nobody() checkpoint.Generation { return "00000000000000000000000000000000" }

func (b *bucket) Get(ctx context.Context, key string) ([]byte, checkpoint.Generation, error) {
	client, err := b.client(ctx)
	if err != nil {
		return nil, "", err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if status, code := refusal(err); status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound") {
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

// Put writes the object. S3 answers 409 when another write of the object is
// under way: that says nothing about the condition, so it is asked again.
func (b *bucket) Put(ctx context.Context, key string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	client, err := b.client(ctx)
	if err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, ContentType: aws.String("application/json")}
	if ifGen == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(`"` + string(ifGen) + `"`)
	}
	wait := backoff.New(50*time.Millisecond, 500*time.Millisecond)
	for attempt := 1; ; attempt++ {
		in.Body = bytes.NewReader(data)
		out, err := client.PutObject(ctx, in)
		if err == nil {
			return generation(out.ETag), nil
		}
		status, code := refusal(err)
		switch {
		case status == http.StatusPreconditionFailed, status == http.StatusNotFound && code == "NoSuchKey":
			return "", checkpoint.ErrConflict
		case status == http.StatusConflict && attempt < 4:
			if backoff.Sleep(ctx, wait.Next()) == nil {
				continue
			}
		case status == http.StatusConflict:
			return "", checkpoint.ErrConflict // others write it without end
		}
		return "", b.classify(err)
	}
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	client, err := b.client(ctx)
	if err != nil {
		return err
	}
	if _, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}); err != nil {
		return b.classify(err)
	}
	return nil
}

// client reads the usual configuration once. Attempts are the caller's affair:
// one that retried by itself would take its own lost reply for another's write.
func (b *bucket) client(ctx context.Context) (*s3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil {
		return b.made, nil
	}
	options := []func(*config.LoadOptions) error{
		config.WithAPIOptions([]func(*middleware.Stack) error{b.learn}), // the token services' too
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = 5 * time.Second })),
	}
	if b.region != "" {
		options = append(options, config.WithRegion(b.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, err)
	}
	if cfg.Region == "" && b.endpoint == "" {
		return nil, sysexits.Errorf(sysexits.Config, "no region: add ?region=REGION to the URL, or set AWS_REGION")
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // what servers of one's own take
	}
	b.made = s3.NewFromConfig(cfg, func(o *s3.Options) {
		// The library's own client takes the same, with AWS_CA_BUNDLE in it, but
		// follows redirects and reads refusals whole.
		if c, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = object.Client(c.GetTransport(), b.secrets)
		}
		o.Logger = logging.Nop{} // it would write on standard error by itself
		if b.endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &b.endpoint, true
		}
		// Other servers do not know the checksums that S3 would like.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return b.made, nil
}

// learn has secrets see each request as it is sent.
func (b *bucket) learn(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Secrets",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			if r, ok := in.Request.(*smithyhttp.Request); ok && r.IsStreamSeekable() {
				b.secrets.Learn(r.Header, r.URL, r.GetStream())
				if err := r.RewindStream(); err != nil {
					return middleware.DeserializeOutput{}, middleware.Metadata{}, err
				}
			} else if ok {
				b.secrets.Learn(r.Header, r.URL, http.NoBody)
			}
			return next.HandleDeserialize(ctx, in)
		}), middleware.After)
}

func generation(etag *string) checkpoint.Generation {
	return checkpoint.Generation(strings.Trim(aws.ToString(etag), `"`))
}

// refusal is the status and the code of an answer that is a refusal; 0 for an
// error that is none.
func refusal(err error) (status int, code string) {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code
}

// classify gives an error its exit status, and the words of the server
// without those of the library.
func (b *bucket) classify(err error) error {
	status, code := refusal(err)
	if status == 0 {
		return b.noAnswer(err)
	}
	text := code
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" && api.ErrorMessage() != code {
		text += ": " + api.ErrorMessage()
	}
	if text == "" || strings.HasPrefix(text, "UnknownError") {
		text = http.StatusText(status)
	}
	exit := object.Code(status)
	switch code {
	case "NoSuchBucket":
		return sysexits.Errorf(sysexits.Config, "the bucket %s does not exist", b.name)
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return sysexits.Errorf(sysexits.Config, "the bucket %s is in another region: %d %s", b.name, status, text)
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		exit = sysexits.NoPerm
	case "RequestTimeout", "SlowDown", "RequestTimeTooSkewed":
		exit = sysexits.Unavailable
	case "NotImplemented":
		return sysexits.Errorf(sysexits.Config, "the server does not know conditional writes: %s", text)
	}
	return sysexits.Errorf(exit, "%d %s", status, text)
}

// noAnswer is for a request that came to nothing.
func (b *bucket) noAnswer(err error) error {
	var signing *smithy.OperationError
	if errors.As(err, &signing) {
		err = signing.Err
	}
	text := err.Error()
	if before, _, ok := strings.Cut(text, " of process output: "); ok { // what follows should have been credentials
		err = errors.New(before + " of the output of credential_process")
	}
	if strings.Contains(text, "get identity") || strings.Contains(text, "refresh cached credentials") {
		return sysexits.Errorf(sysexits.NoPerm, "no credentials for the bucket %s: %w", b.name, err)
	}
	return sysexits.Wrap(sysexits.Unavailable, fmt.Errorf("no answer: %w", err))
}
