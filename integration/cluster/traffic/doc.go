// Package traffic has clients that send requests to Services over every protocol and IP
// family, once, or all the time while something happens.
//
//	crowd := traffic.Start(traffic.From(pod), traffic.From(node))
//	err := crowd.Add(ctx, traffic.Service(svc, 80))
//	...                 // after a client's first answer, every request must be answered
//	questions, err := crowd.Stop()
//
// A client never uses the same source port twice over the same way: connection tracking
// would treat it as the former connection, with its endpoint. A request counts as lost
// before TCP retransmits, which could hide that the first packet met no rule. None may be lost,
// unless the whole machine was paused meanwhile, which is detected.
package traffic
