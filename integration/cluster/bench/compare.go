package main

import "context"

const (
	// compared is the number of changes of a kind that kube-proxy must follow: it may need
	// seconds for one.
	compared = 10
	// comparedRate is low enough for that.
	comparedRate = 0.1
)

// compare measures kube-proxy in mode nftables on the same cluster. There is no promise
// about it.
func (b *bench) compare(ctx context.Context) error {
	if err := b.cleanup(ctx); err != nil {
		return err
	}
	floor, p := b.informers(), b.kubeProxy()
	if err := floor.once(ctx); err != nil {
		return err
	}
	running, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer running.Kill() // it has no other end
	if err := p.measure(ctx, running); err != nil {
		return err
	}
	s := b.startSection("For comparison, start of kube-proxy, " + b.size())
	s.Note("one round, minSyncPeriod 1ms; CPU with that of the nft programs it runs")
	floor.row(s, floor)
	p.row(s, floor)
	s = b.changeSection("For comparison, single changes with kube-proxy, " + b.size())
	s.Note("%s of each, %s a second", compared, comparedRate)
	return b.follow(ctx, running, b.changes, compared, comparedRate, func(k kind, f *following) { f.row(s, k.name) })
}
