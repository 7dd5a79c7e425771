package trace

import "github.com/spf13/pflag"

// AddTo adds the flags that say which packets to follow, and for how long.
func (o *Options) AddTo(f *pflag.FlagSet) {
	f.IntVar(&o.Count, "count", 0, "with --trace: end after so many `packets`; 0 means never")
	f.DurationVar(&o.Timeout, "timeout", 0, "with --trace: end after that `time`; 0 means never")
	f.BoolVar(&o.Every, "every", false, "with --trace: follow every packet, not only those that open a connection")
	f.BoolVar(&o.Replies, "replies", false, "with --trace: follow the packets that answer, too")
	f.Uint32Var(&o.Rate, "rate", 10, "with --trace: follow so many `packets` a second at most")
}
