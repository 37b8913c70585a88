// Package k8s keeps a lease in a Lease of Kubernetes, by the configuration that
// kubectl has, or by that of the pod. See the section on leases of ckpt(1).
package k8s

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/httpguard"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// Annotations carry what the specification of a Lease has no place for.
const (
	epochKey = "sf2loki/epoch"
	ttlKey   = "sf2loki/ttl"
	// termKey bears the time of its writing too: another program may change
	// the specification and leave the annotations as they are.
	termKey = "sf2loki/term"
)

// timeLayout is that of a MicroTime.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// Backend is a lease.Backend in a Lease.
type Backend struct {
	namespace, name string
	config          func() (*rest.Config, error)

	mu     sync.Mutex
	client rest.Interface
	last   *coordinationv1.Lease // as it was last read or written
}

// New returns the lease at loc, k8s://namespace/name. Nothing is asked yet;
// secrets learns what requests prove themselves with.
func New(loc checkpoint.Location, secrets *secret.Set) (*Backend, error) {
	return newBackend(loc, func() (*rest.Config, error) {
		config, err := usualConfig()
		if err == nil {
			config.Wrap(secrets.Transport)
		}
		return config, err
	})
}

func newBackend(loc checkpoint.Location, config func() (*rest.Config, error)) (*Backend, error) {
	name := strings.TrimPrefix(loc.URL.Path, "/")
	if loc.URL.Host == "" || name == "" || strings.Contains(name, "/") || loc.URL.RawQuery != "" || loc.URL.Fragment != "" {
		return nil, sysexits.Errorf(sysexits.Config, "lease %s: not of the form k8s://NAMESPACE/NAME", loc)
	}
	return &Backend{namespace: loc.URL.Host, name: name, config: config}, nil
}

// usualConfig is KUBECONFIG, ~/.kube/config, or that of the pod.
func usualConfig() (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
}

// String names the lease.
func (b *Backend) String() string { return "k8s://" + b.namespace + "/" + b.name }

// Read tells what the Lease says. Attempts are the caller's affair, in both
// directions.
func (b *Backend) Read(ctx context.Context) (lease.Record, checkpoint.Generation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var l coordinationv1.Lease
	client, err := b.connect()
	if err == nil {
		err = client.Get().MaxRetries(0).Namespace(b.namespace).Resource("leases").Name(b.name).Do(ctx).Into(&l)
	}
	switch {
	case apierrors.IsNotFound(err):
		err = checkpoint.ErrNotFound
	case err == nil:
		err = b.proven(&l)
	}
	if err != nil {
		return lease.Record{}, "", fmt.Errorf("read the lease %s: %w", b, classify(err))
	}
	b.last = &l
	return record(&l), checkpoint.Generation(l.ResourceVersion), nil
}

// Write replaces the Lease, if its resourceVersion still is ifGen.
func (b *Backend) Write(ctx context.Context, r lease.Record, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	client, err := b.connect()
	if err != nil {
		return "", err
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: b.name}}
	request := client.Post().MaxRetries(0).Namespace(b.namespace).Resource("leases")
	if ifGen != "" {
		if b.last != nil && b.last.ResourceVersion == string(ifGen) {
			l = b.last.DeepCopy() // labels and owners stay
		}
		l.ResourceVersion = string(ifGen)
		request = client.Put().MaxRetries(0).Namespace(b.namespace).Resource("leases").Name(b.name)
	}
	fill(l, r)
	var made coordinationv1.Lease
	if err = request.Body(l).Do(ctx).Into(&made); err == nil {
		err = b.proven(&made)
	}
	switch {
	case err == nil:
		b.last = &made
		return checkpoint.Generation(made.ResourceVersion), nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), ifGen != "" && apierrors.IsNotFound(err):
		err = checkpoint.ErrConflict
	}
	return "", fmt.Errorf("write the lease %s: %w", b, classify(err))
}

// proven refuses what is not this Lease with a version: something that answers in
// the server's place, and lets everybody lead.
func (b *Backend) proven(l *coordinationv1.Lease) error {
	if l.Name != b.name || l.ResourceVersion == "" {
		return sysexits.Errorf(sysexits.Unavailable, "the answer is not that Lease: is this the server of Kubernetes?")
	}
	return nil
}

// fill writes r into l. Every write differs from the one before, by its count
// at least: the server takes an equal one without looking at the version.
func fill(l *coordinationv1.Lease, r lease.Record) {
	now := metav1.NewMicroTime(r.Renewed.UTC())
	seconds, transitions := int32(max(1, (r.TTL+time.Second-1)/time.Second)), int32(r.Epoch)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &r.Holder, &seconds
	l.Spec.RenewTime, l.Spec.LeaseTransitions = &now, &transitions
	if r.Count == 1 {
		l.Spec.AcquireTime = &now
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[epochKey] = strconv.FormatUint(r.Epoch, 10)
	l.Annotations[ttlKey] = r.TTL.String()
	l.Annotations[termKey] = strings.Join([]string{r.Term, strconv.FormatUint(r.Count, 10), now.UTC().Format(timeLayout)}, " ")
}

// record reads a Lease, whoever wrote it: everything in it may be missing.
func record(l *coordinationv1.Lease) lease.Record {
	var r lease.Record
	spec := l.Spec
	if spec.LeaseTransitions != nil && *spec.LeaseTransitions > 0 {
		r.Epoch = uint64(*spec.LeaseTransitions)
	}
	if epoch, err := strconv.ParseUint(l.Annotations[epochKey], 10, 64); err == nil {
		r.Epoch = max(r.Epoch, epoch)
	}
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return r // nobody can be holding it
	}
	r.Holder, r.Renewed = *spec.HolderIdentity, spec.RenewTime.Time
	r.TTL = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	ours := strings.Split(l.Annotations[termKey], " ")
	if len(ours) != 3 || ours[2] != r.Renewed.UTC().Format(timeLayout) {
		return r
	}
	r.Term = ours[0]
	r.Count, _ = strconv.ParseUint(ours[1], 10, 64) // 0 is no write's
	if ttl, err := time.ParseDuration(l.Annotations[ttlKey]); err == nil && ttl > 0 {
		r.TTL = ttl
	}
	return r
}

// connect makes a client that knows Leases and nothing else of Kubernetes.
func (b *Backend) connect() (rest.Interface, error) {
	if b.client != nil {
		return b.client, nil
	}
	config, err := b.config()
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, fmt.Errorf("lease %s: %w", b, err))
	}
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, sysexits.Wrap(sysexits.Software, err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // refusals
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	client, err := restClient(config)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, fmt.Errorf("lease %s: %w", b, err))
	}
	b.client = client
	return client, nil
}

// maxAnswer is far beyond any Lease.
const maxAnswer = 4 << 20

// restClient makes a client that does not take its token to where a redirect
// leads, nor reads an answer without end.
func restClient(config *rest.Config) (*rest.RESTClient, error) {
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	careful := *plain
	careful.CheckRedirect = httpguard.Stay
	next := plain.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	careful.Transport = httpguard.Bound(next, maxAnswer)
	return rest.RESTClientForConfigAndClient(config, &careful)
}

// classify gives an error its exit status.
func classify(err error) error {
	if sysexits.Coded(err) || errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return sysexits.Wrap(sysexits.Unavailable, fmt.Errorf("no answer: %w", err))
	}
	switch code := refused.Status().Code; {
	case code == 401 || code == 403:
		return sysexits.Wrap(sysexits.NoPerm, err)
	case code == 408 || code == 429 || code >= 500:
		return sysexits.Wrap(sysexits.Unavailable, err)
	}
	return sysexits.Wrap(sysexits.Config, err)
}
