import json,subprocess,os,collections,sys
rows=json.load(open('rekey.work/rows.json'))
by=collections.defaultdict(list)
for r in rows: by[r['commit']].append(r)
def tree(c):
    d=f'rekey.work/{c[:12]}'
    if not os.path.isdir(d):
        os.makedirs(d); subprocess.run(f'git -C . archive {c} lib | tar x -C {d}',shell=True,check=True)
    return d
def run(c,rs,tag):
    d=tree(c); inp=f'rekey.work/in-{tag}.json'; out=f'rekey.work/out-{tag}.json'
    json.dump(rs,open(inp,'w'))
    p=subprocess.run([sys.executable,'results/rekey/old_side.py',inp,out],env={**os.environ,'PYTHONPATH':d+'/lib','XDG_CACHE_HOME':'rekey.work/cache'},capture_output=True,text=True,cwd='rekey.work')
    print(c[:12],tag,p.stdout.strip(),p.stderr.strip()[-300:]); 
    return json.load(open(out)) if p.returncode==0 else []
known=[c for c in by if c and subprocess.run(['git','-C','.','cat-file','-e',c+'^{commit}'],capture_output=True).returncode==0]
res={}
for c in known:
    for x in run(c,by[c],c[:12]): res[x['i']]={**x,'at':c}
left=[r for r in rows if not res.get(r['i'],{}).get('match')]
print('left',len(left))
full=subprocess.run(['git','-C','.','log','--format=%H','6eb0749'],capture_output=True,text=True).stdout.split()
for c in [*known,*full[:60:6]]:
    if not left: break
    for x in run(c,left,'left-'+c[:12]):
        if x['match']: res[x['i']]={**x,'at':c}
        elif x.get('sha_match') and not res.get(x['i'],{}).get('sha_match'): res[x['i']]={**x,'at':c}
    left=[r for r in rows if not res.get(r['i'],{}).get('match')]
    print('left',len(left))
json.dump(res,open('rekey.work/res.json','w'))
