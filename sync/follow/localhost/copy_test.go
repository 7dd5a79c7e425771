package localhost

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	stdsync "sync"
	"syscall"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/follow/listen/listentest"
)

// noise returns random data.
func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	source := rand.NewChaCha8([32]byte{seed})
	_, _ = source.Read(data) // never fails
	return data
}

func TestCopyBothDirectionsAtOnce(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		_, b, port := served(t, f)
		p := b.connect(t, port)
		const size = 8 << 20
		var ways stdsync.WaitGroup
		for i, way := range []struct{ to, from *net.TCPConn }{{p.server, p.client}, {p.client, p.server}} {
			data := noise(byte(i), size)
			ways.Go(func() {
				if _, err := way.from.Write(data); err != nil {
					t.Error(err)
				}
				if err := way.from.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			ways.Go(func() {
				sum := sha256.New()
				n, err := io.Copy(sum, way.to)
				if want := sha256.Sum256(data); err != nil || n != size || !bytes.Equal(sum.Sum(nil), want[:]) {
					t.Errorf("way %d: %d bytes, %v", i, n, err)
				}
			})
		}
		ways.Wait()
	})
}

func TestHalfClosedConnectionGetsItsResponse(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		_, b, port := served(t, f)
		for _, clientFirst := range []bool{true, false} {
			p := b.connect(t, port)
			first, second := p.client, p.server
			if !clientFirst {
				first, second = p.server, p.client
			}
			send(t, second, first, "all I have")
			if err := first.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("the end of data arrives as %v", err)
			}
			for range 3 {
				send(t, first, second, "still here")
			}
			second.Close()
			if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the other end of data arrives as %v", err)
			}
		}
	})
}

func TestResetIsForwarded(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		_, b, port := served(t, f)
		for _, byClient := range []bool{true, false} {
			for _, open := range []bool{true, false} {
				p := b.connect(t, port)
				p.talk(t)
				from, to := p.client, p.server
				if !byClient {
					from, to = p.server, p.client
				}
				if !open { // the receiver has closed its direction before
					if err := to.CloseWrite(); err != nil {
						t.Fatal(err)
					}
					if _, err := from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
				}
				reset(from)
				if _, err := to.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("by client %t, open %t: it arrives as %v", byClient, open, err)
				}
			}
		}
	})
}

func TestResponseIsDeliveredWhileClientSends(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		_, b, port := served(t, f, func(r *rig) { r.drainTimeout = listentest.Timeout })
		p := b.connect(t, port)
		if err := p.client.SetReadBuffer(4096); err != nil { // the proxy buffers most of it
			t.Fatal(err)
		}
		response := noise(1, 50_000)
		// As a server does that rejects a request before it has read it.
		if _, err := p.server.Write(response); err != nil {
			t.Fatal(err)
		}
		p.server.Close()
		for range 50 {
			if _, err := p.client.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
		if got, err := io.ReadAll(p.client); err != nil || !bytes.Equal(got, response) {
			t.Fatalf("%d bytes arrive, %v", len(got), err)
		}
	})
}

func TestEndlessSenderIsDisconnected(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		_, b, port := served(t, f, func(r *rig) { r.drainTimeout = 100 * time.Millisecond })
		p := b.connect(t, port)
		p.talk(t)
		p.server.Close()
		for {
			if _, err := p.client.Write(make([]byte, 1000)); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection stays open")
				}
				return
			}
		}
	})
}
