package masquerade

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/sctp"
	"kube-vmap/model"
)

const (
	// firstPort and ports are those that clients use, one after the other.
	firstPort = 10_000
	ports     = 50_000
	// answerTime is how long the answer to a first packet may take: less than TCP waits until
	// it sends it again.
	answerTime = 500 * time.Millisecond
)

// Race is two clients that begin a connection from the same port in the same instant, again
// and again.
type Race struct {
	Hosts    [2]*lab.Host
	Protocol model.Protocol
	To       netip.AddrPort
	Rounds   int
	Until    time.Time // if it is set, instead of Rounds
}

// Outcome is what the clients saw: how many connections there were, and the first packets of
// how many were lost.
type Outcome struct{ Connections, Lost int }

// Run runs all rounds.
func (r Race) Run() (Outcome, error) {
	var (
		gate     atomic.Int64 // how many clients are ready, in all rounds
		failed   atomic.Bool
		outcomes [2]Outcome
		group    errgroup.Group
	)
	for i, host := range r.Hosts {
		group.Go(func() error {
			return host.Do(func() error {
				defer failed.Store(true)
				for n := 0; r.continues(n); n++ {
					lost, err := r.round(host, n, func() error { return meet(&gate, 2*(n+1), &failed) })
					if err != nil {
						return err
					}
					outcomes[i].Connections++
					if lost {
						outcomes[i].Lost++
					}
				}
				return nil
			})
		})
	}
	err := group.Wait()
	if r.Until != (time.Time{}) && errors.Is(err, errAlone) {
		err = nil // one of them was the first to see that the time is over
	}
	return Outcome{outcomes[0].Connections + outcomes[1].Connections, outcomes[0].Lost + outcomes[1].Lost}, err
}

func (r Race) continues(n int) bool {
	if r.Until == (time.Time{}) {
		return n < r.Rounds
	}
	return time.Now().Before(r.Until)
}

var errAlone = errors.New("the other client has ended")

// meet returns when both clients are there. It spins: to be woken takes longer than the race.
func meet(gate *atomic.Int64, want int, failed *atomic.Bool) error {
	gate.Add(1)
	for gate.Load() < int64(want) {
		if failed.Load() {
			return errAlone
		}
	}
	return nil
}

// round makes one connection when the other client is ready, too. It reports whether the first
// packet was lost.
func (r Race) round(host *lab.Host, n int, ready func() error) (lost bool, err error) {
	from := netip.AddrPortFrom(host.Addr(model.FamilyOf(r.To.Addr())), uint16(firstPort+n%ports))
	switch r.Protocol {
	case model.TCP:
		return overTCP(from, r.To, ready)
	case model.UDP:
		return overUDP(from, r.To, ready)
	}
	return overSCTP(from, r.To, ready)
}

func overTCP(from, to netip.AddrPort, ready func() error) (lost bool, err error) {
	c, err := newConnection(from, to)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unix.Close(c.fd)) }()
	if err := ready(); err != nil {
		return false, err
	}
	c.patience = answerTime
	var r Result
	if err = c.use(&r); errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return r.Again > 0, err
}

func overUDP(from, to netip.AddrPort, ready func() error) (lost bool, err error) {
	fd, err := open(unix.SOCK_DGRAM, to.Addr(), 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	wait := unix.NsecToTimeval(answerTime.Nanoseconds())
	err = errors.Join(unix.Bind(fd, sockaddr(from)), unix.Connect(fd, sockaddr(to)),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	if err == nil {
		err = ready()
	}
	if err != nil {
		return false, err
	}
	if _, err := unix.Write(fd, []byte("?")); err != nil {
		return false, err
	}
	for {
		_, err := unix.Read(fd, make([]byte, 64))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return true, nil
		}
		return false, err
	}
}

func overSCTP(from, to netip.AddrPort, ready func() error) (lost bool, err error) {
	c, err := sctp.Dial(from, to)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := ready(); err != nil {
		return false, err
	}
	// The first packet is INIT, and the answer to it comes before the message is sent.
	if _, err = c.Send([]byte("?"), time.Now().Add(answerTime)); errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("associate: %w", err)
	}
	return false, nil
}
