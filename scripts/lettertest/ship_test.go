package lettertest

import (
	"strings"
	"testing"
)

// Letters may be encrypted on their way to the disk, by a program that has the
// public half of a key only.
func TestEncryption(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 6, poison(2, 4))
	b.want(0, `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout key.pem -out cert.pem 2>/dev/null
mkfifo letters
openssl smime -encrypt -binary -aes-256-cbc -outform DER -out letters.p7m cert.pem <letters & sealer=$!
loki-push 3>letters <in >acks && wait $sealer`)
	if strings.Contains(b.Read("letters.p7m"), "line_too_long") {
		t.Error("the letters can be read")
	}
	b.lineLimit(1000)
	b.want(0, "openssl smime -decrypt -binary -inform DER -in letters.p7m -inkey key.pem -out back.ndjson && dl-replay run back.ndjson -- loki-push", "2 to send: 2 replayed")
	if len(b.stored()) != 6 {
		t.Errorf("%d stored", len(b.stored()))
	}
}
