package listen

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync"
)

const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// A retryState is the state of a socket that cannot be opened.
type retryState struct {
	backoff  wait.Backoff
	until    time.Time
	reported string // the last error that was reported
}

// scheduleRetry schedules the next attempt. It reports each error once, and a lack of descriptors
// for all sockets together.
func (s *Sockets) scheduleRetry(socket Socket, err error) {
	if !errors.Is(err, syscall.EAFNOSUPPORT) {
		s.count(socket, 0, 1)
	}
	r := s.failed[socket]
	if r == nil {
		r = &retryState{backoff: wait.Backoff{Duration: minBackoff, Factor: 2, Steps: 1 << 10, Cap: maxBackoff}}
		s.failed[socket] = r
	}
	r.until = time.Now().Add(r.backoff.Step())
	if text := fmt.Sprint(err); text != r.reported {
		r.reported = text
		if errors.Is(err, syscall.EMFILE) {
			s.full.Do(func() { s.report(socket, err) })
			return
		}
		s.report(socket, err)
	}
}

func (s *Sockets) report(socket Socket, err error) {
	if errors.Is(err, syscall.EAFNOSUPPORT) {
		// The machine lacks this family. The Service is not wrong.
		s.Log.Debug("address family not supported", "server", s.Name, "service", socket.Service.String(), "err", err)
		return
	}
	s.Log.Warn("cannot listen, retrying", "server", s.Name, "service", socket.Service.String(),
		"address", socket.Addr.String(), "err", err)
	if s.Recorder == nil {
		return
	}
	o := sync.Object{Kind: "Service", Namespace: socket.Service.Namespace, Name: socket.Service.Name, UID: socket.UID}
	s.Recorder.Warn(o, s.Reason,
		fmt.Sprintf("The %s is not available on %s: %v. It will be retried.", s.Name, socket.Addr, err))
}

// markListening records that a socket is open. It logs at a higher level if that failed before.
func (s *Sockets) markListening(socket Socket) {
	log := s.Log.Debug
	if s.failed[socket] != nil {
		log = s.Log.Info
	}
	log("listening", "server", s.Name, "service", socket.Service.String(), "address", socket.Addr.String())
	delete(s.failed, socket)
}

// nextRetry returns a channel that delivers when the next retry is due, or nil.
func (s *Sockets) nextRetry() <-chan time.Time {
	var first time.Time
	for _, r := range s.failed {
		if first.IsZero() || r.until.Before(first) {
			first = r.until
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}
