package pipetest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// testOrg is a simulated org, and what its files should become.
type testOrg struct {
	*sftest.Org
	t    *testing.T
	want tally
}

func newOrg(t *testing.T) *testOrg {
	t.Helper()
	org := sftest.NewOrg(sftest.Config{Gzip: true})
	t.Cleanup(org.Close)
	return &testOrg{Org: org, t: t, want: tally{}}
}

// publish counts the rows of the file in.
func (o *testOrg) publish(id string) string {
	o.t.Helper()
	maps.Copy(o.want, expected(o.t, o.LogFileBody(id), map[string]string{"sf_org_id": o.ID}).folded())
	return id
}

// created makes a file one that was made some time ago.
func created(ago time.Duration) func(*sftest.LogFile) {
	return func(f *sftest.LogFile) { f.Created = time.Now().Add(-ago) }
}

// hoursAgo is the beginning of an hour before this one.
func hoursAgo(n int) time.Time {
	return time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(n) * time.Hour)
}

func daysAgo(n int) time.Time {
	return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -n)
}

// use makes the org the one that sf-pull logs in to.
func (b *bench) use(o *testOrg) *bench {
	b.T.Helper()
	b.Write("key.pem", o.PrivateKeyPEM())
	return b.set("SF_PULL_LOGIN_URL="+o.URL, "SF_PULL_CLIENT_ID="+o.ClientID, "SF_PULL_USERNAME="+o.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Path("key.pem"))
}

// otherKey is a good key that no app knows.
func otherKey() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
