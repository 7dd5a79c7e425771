package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// A Fault is a way in which a call fails.
type Fault uint8

// The faults. The caller of Apply knows that nothing was applied after FaultRefused and
// FaultDenied; after FaultNotSent and FaultNoAnswer it does not know.
const (
	faultNone     Fault = iota
	FaultRefused        // the kernel refuses one of the batch's elements, or an operation
	FaultDenied         // no permission
	FaultNotSent        // interrupted before the batch was applied
	FaultNoAnswer       // interrupted after the batch was applied
	FaultRead           // a read fails
)

// FaultRates are the shares of calls that fail, by fault, each from 0 to 1.
type FaultRates struct {
	Refused, Denied, NotSent, NoAnswer float64 // of Apply
	Read                               float64 // of Read
}

// Faulty makes calls of a kernel fail: first for Service ports given to Refuse, then by the
// faults given to Fail, else at random. The same seed and calls fail in the same way. Its
// methods may be called by several goroutines.
type Faulty struct {
	kernel target

	mu      sync.Mutex
	refused map[string]refusedPort // by Service port
	next    []Fault
	rates   FaultRates
	random  *rand.Rand
}

// A target is a kernel that can be made to fail.
type target interface {
	Read() (nft.Tables, error)
	Apply(nft.Batch) (nft.Applied, error)
	ForeignChanges() (uint32, error)
}

// NewFaulty returns a kernel that fails at these rates. With zero rates it fails only as
// Refuse and Fail say.
func NewFaulty(k target, r FaultRates, seed uint64) *Faulty {
	return &Faulty{
		kernel: k, rates: r, random: rand.New(rand.NewPCG(seed, 0)),
		refused: map[string]refusedPort{},
	}
}

// refusedPort is how a Service port is refused, and how many times more; zero means always.
type refusedPort struct {
	errno syscall.Errno
	times int
}

// Refuse makes every batch fail that adds an element of the Service port, or only a number
// of times if that is not zero. Errno zero ends that.
func (f *Faulty) Refuse(service string, errno syscall.Errno, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused[service] = (refusedPort{errno, times}); errno == 0 {
		delete(f.refused, service)
	}
}

// Fail makes the next n calls of the fault's kind fail, after the calls that earlier
// calls of Fail named.
func (f *Faulty) Fail(with Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.next = append(f.next, with)
	}
}

// ClearFaults removes all faults.
func (f *Faulty) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates, f.next = FaultRates{}, nil
	clear(f.refused)
}

// Read reads the kernel, unless it fails.
func (f *Faulty) Read() (nft.Tables, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nextFault(true) != faultNone {
		return nft.Tables{}, fmt.Errorf("query nf_tables: %w", f.unknownOutcome())
	}
	return f.kernel.Read()
}

// Apply commits the batch, unless it fails.
func (f *Faulty) Apply(b nft.Batch) (nft.Applied, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuseService(b); err != nil {
		return nft.Applied{}, err
	}
	queued := len(f.next) > 0
	switch f.nextFault(false) {
	case FaultRefused:
		errno := unix.ENOMEM
		if !queued {
			errno = refusalErrnos[f.random.IntN(len(refusalErrnos))]
		}
		return nft.Applied{}, f.refuseAny(b, errno)
	case FaultDenied:
		return nft.Applied{}, &wire.Error{Errno: unix.EPERM}
	case FaultNotSent:
		return nft.Applied{}, fmt.Errorf("send a batch: %w", f.unknownOutcome())
	case FaultNoAnswer:
		if _, err := f.kernel.Apply(b); err != nil {
			return nft.Applied{}, err
		}
		return nft.Applied{}, fmt.Errorf("read the answer to a batch: %w", unix.ENOBUFS)
	case faultNone, FaultRead:
	}
	return f.kernel.Apply(b)
}

// ForeignChanges returns the kernel's.
func (f *Faulty) ForeignChanges() (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kernel.ForeignChanges()
}

// nextFault returns the fault of a call.
func (f *Faulty) nextFault(read bool) Fault {
	if len(f.next) > 0 {
		next := f.next[0]
		if (next == FaultRead) != read {
			return faultNone
		}
		f.next = f.next[1:]
		return next
	}
	rates := []float64{
		FaultRefused: f.rates.Refused, FaultDenied: f.rates.Denied, FaultNotSent: f.rates.NotSent, FaultNoAnswer: f.rates.NoAnswer,
	}
	if read {
		rates = []float64{FaultRead: f.rates.Read}
	}
	drawn := f.random.Float64()
	for fault, rate := range rates {
		if drawn -= rate; drawn < 0 {
			return Fault(fault)
		}
	}
	return faultNone
}

// unknownOutcome returns one of the errors that do not show whether the batch was applied.
func (f *Faulty) unknownOutcome() error {
	if f.random.IntN(2) == 0 {
		return unix.EINTR
	}
	return unix.ENOBUFS
}

// refuseService refuses the first added element of a Service port that is to be refused.
func (f *Faulty) refuseService(b nft.Batch) error {
	for _, e := range addedElements(b) {
		name := e.Service.String()
		port, refused := f.refused[name]
		if !refused {
			continue
		}
		switch port.times {
		case 0:
		case 1:
			delete(f.refused, name)
		default:
			f.refused[name] = refusedPort{port.errno, port.times - 1}
		}
		e.Errno = port.errno
		return e
	}
	return nil
}

// refusalErrnos are examples of each cause of refusals.
var refusalErrnos = []syscall.Errno{
	unix.ENOMEM, unix.ENOBUFS, unix.EINTR, unix.ENOENT, unix.EEXIST, unix.EBUSY, unix.ERESTART, unix.ENFILE, unix.EINVAL,
}

// refuseAny refuses some added element, or else some operation.
func (f *Faulty) refuseAny(b nft.Batch, errno syscall.Errno) error {
	if list := addedElements(b); len(list) > 0 {
		e := list[f.random.IntN(len(list))]
		e.Errno = errno
		return e
	}
	return &wire.Error{Op: b[f.random.IntN(len(b))], Errno: errno}
}

// addedElements returns an error for each element that the batch adds.
func addedElements(b nft.Batch) []*wire.Error {
	var list []*wire.Error
	for _, op := range b {
		_, elements, _ := nft.AddedElements(op)
		for i := range elements {
			list = append(list, refusal(op, &elements[i], 0))
		}
	}
	return list
}
