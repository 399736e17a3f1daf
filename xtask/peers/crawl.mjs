// Follows every link, as fast as Crawlee can; its queue lies where CRAWLEE_STORAGE_DIR says.
import { createRequire } from 'node:module';

// The package lies in the cache folder, not beside this file.
const require = createRequire(`${process.env.PEER_MODULES}/`);
const { CheerioCrawler } = require('@crawlee/cheerio');

const crawler = new CheerioCrawler({
    minConcurrency: 32,
    maxConcurrency: 64,
    maxRequestRetries: 0,
    useSessionPool: false,
    respectRobotsTxtFile: true,
    autoscaledPoolOptions: { desiredConcurrency: 64 },
    requestHandler: ({ enqueueLinks }) => enqueueLinks({ strategy: 'all' }),
});
await crawler.run([process.argv[2]]);
